#include "transfers.hpp"

#include <algorithm>

#include "check.hpp"

namespace unisono::comm::mpi {
namespace {

/// Calls transfer(part of the bytes) for each part that one message can carry.
template <typename Byte, typename Transfer>
void for_each_message(std::span<Byte> bytes, Transfer transfer) {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kLongestMessage));
    transfer(part);
    bytes = bytes.subspan(part.size());
  }
}

bool test_all(std::vector<MPI_Request>& requests) {
  if (requests.empty()) return true;
  int done = 0;
  check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (done != 0) requests.clear();
  return done != 0;
}

}  // namespace

Transfers::~Transfers() {
  for (auto* requests : {&receives_, &sends_}) {
    for (MPI_Request& request : *requests) {
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
  }
}

void Transfers::send(std::span<const std::byte> bytes, MPI_Comm communicator, int peer, int tag) {
  for_each_message(bytes, [&](std::span<const std::byte> part) {
    check(MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, peer, tag, communicator,
                    &sends_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  });
}

void Transfers::receive(std::span<std::byte> bytes, MPI_Comm communicator, int peer, int tag) {
  for_each_message(bytes, [&](std::span<std::byte> part) {
    check(MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, peer, tag, communicator,
                    &receives_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Irecv");
  });
}

bool Transfers::test() {
  const bool received = test_all(receives_);
  return test_all(sends_) && received;
}

bool Transfers::let_go() {
  for (MPI_Request& request : receives_) {
    if (!cancelled_ && request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }
  cancelled_ = true;
  return test();
}

}  // namespace unisono::comm::mpi
