#include "message_operations.hpp"

#include <utility>

#include "check.hpp"

namespace unisono::comm::mpi {
namespace {

bool test(MPI_Request& request) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace

MessageScatter::MessageScatter(Participants participants, std::span<float> values)
    : participants_(std::move(participants)), values_(values) {
  scratch_ = std::make_unique_for_overwrite<float[]>(slice(participants_.me).size() *
                                                     static_cast<std::size_t>(participants_.size()));
}

std::span<float> MessageScatter::slice(int rank) const {
  const Slice bounds = slice_of(static_cast<Index>(values_.size()), rank, participants_.size());
  return values_.subspan(static_cast<std::size_t>(bounds.first), static_cast<std::size_t>(bounds.last - bounds.first));
}

std::span<float> MessageScatter::brought(int rank) const {
  const std::span<float> mine = slice(participants_.me);
  if (rank == participants_.me) return mine;
  return {scratch_.get() + static_cast<std::size_t>(rank) * mine.size(), mine.size()};
}

bool MessageScatter::advance() {
  if (!std::exchange(begun_, true)) {
    exchange(
        transfers_, participants_, [&](int from) { return std::as_writable_bytes(brought(from)); },
        [&](int to) { return std::as_bytes(slice(to)); });
  }
  if (!transfers_.test()) return false;
  std::vector<const float*> inputs;
  for (int r = 0; r < participants_.size(); ++r) inputs.push_back(brought(r).data());
  float* const target = slice(participants_.me).data();
  combine_in_order<float>(inputs, std::span(&target, 1), static_cast<Index>(slice(participants_.me).size()), Sum{});
  return true;
}

bool MessageGather::advance() {
  if (!std::exchange(begun_, true)) {
    exchange(
        transfers_, participants_, [&](int from) { return parts_[static_cast<std::size_t>(from)]; },
        [&](int) { return std::span<const std::byte>(parts_[static_cast<std::size_t>(participants_.me)]); });
  }
  return transfers_.test();
}

bool SendOperation::advance() {
  if (!std::exchange(begun_, true)) transfers_.send(bytes_, communicator_, peer_, tag_);
  return transfers_.test();
}

bool ReceiveOperation::advance() {
  if (!std::exchange(begun_, true)) transfers_.receive(bytes_, communicator_, peer_, tag_);
  return transfers_.test();
}

bool Broadcast::advance() {
  while (test(request_)) {
    if (rest_.empty()) return true;
    const auto part = rest_.first(std::min(rest_.size(), kLongestMessage));
    rest_ = rest_.subspan(part.size());
    check(MPI_Ibcast(part.data(), static_cast<int>(part.size()), MPI_BYTE, root_, communicator_, &request_),
          "MPI_Ibcast");
  }
  return false;
}

bool Broadcast::let_go() {
  rest_ = {};
  return test(request_);
}

bool Barrier::advance() {
  if (!std::exchange(begun_, true)) check(MPI_Ibarrier(communicator_, &request_), "MPI_Ibarrier");
  return test(request_);
}

}  // namespace unisono::comm::mpi
