#include "mpi/message_operations.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "topology.hpp"

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

bool test(MPI_Request& request) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

/// Rank's slice of a vector.
std::span<float> line_slice(std::span<float> values, int rank, int size) {
  const Slice bounds = line_slice_of(std::ssize(values), rank, size);
  return values.subspan(static_cast<std::size_t>(bounds.first), static_cast<std::size_t>(bounds.last - bounds.first));
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

MessageScatter::MessageScatter(Participants participants, std::span<float> values)
    : participants_(std::move(participants)), values_(values) {
  scratch_ = std::make_unique_for_overwrite<float[]>(slice(participants_.me).size() *
                                                     static_cast<std::size_t>(participants_.size()));
}

std::span<float> MessageScatter::slice(int rank) const { return line_slice(values_, rank, participants_.size()); }

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

MessageTreeSum::MessageTreeSum(Participants participants, std::vector<std::span<float>> vectors, const TreeSum& order)
    : participants_(std::move(participants)), vectors_(std::move(vectors)), order_(order) {
  scratch_ =
      std::make_unique_for_overwrite<float[]>(slice(vectors_.front(), participants_.me).size() * order_.inputs.size());
}

std::span<float> MessageTreeSum::slice(std::span<float> vector, int rank) const {
  const Slice bounds = slice_of(static_cast<Index>(vector.size()), rank, participants_.size());
  return vector.subspan(static_cast<std::size_t>(bounds.first), static_cast<std::size_t>(bounds.last - bounds.first));
}

/// This rank's slice of an input.
std::span<float> MessageTreeSum::brought(std::size_t input) const {
  const TreeSum::Input& from = order_.inputs[input];
  const std::span<float> mine = slice(vectors_[static_cast<std::size_t>(from.vector)], participants_.me);
  if (from.rank == participants_.me) return mine;
  return {scratch_.get() + input * mine.size(), mine.size()};
}

void MessageTreeSum::collect() {
  const auto rank_of = [&](int place) { return participants_.ranks[static_cast<std::size_t>(place)]; };
  for (std::size_t i = 0; i < order_.inputs.size(); ++i) {
    const int from = order_.inputs[i].rank;
    if (from == participants_.me) continue;
    transfers_.receive(std::as_writable_bytes(brought(i)), participants_.communicator, rank_of(from),
                       participants_.tag);
  }
  for (int distance = 1; distance < participants_.size(); ++distance) {  // each rank begins with another peer
    const int to = (participants_.me + distance) % participants_.size();
    for (const TreeSum::Input& input : order_.inputs) {
      if (input.rank != participants_.me) continue;
      transfers_.send(std::as_bytes(slice(vectors_[static_cast<std::size_t>(input.vector)], to)),
                      participants_.communicator, rank_of(to), participants_.tag);
    }
  }
}

void MessageTreeSum::combine() {
  std::vector<const float*> inputs;
  for (std::size_t i = 0; i < order_.inputs.size(); ++i) inputs.push_back(brought(i).data());
  const std::span<float> mine = slice(vectors_.front(), participants_.me);
  float* const target = mine.data();
  combine_in_tree(inputs, order_.program, std::span(&target, 1), static_cast<Index>(mine.size()));
}

void MessageTreeSum::spread() {
  exchange(
      transfers_, participants_, [&](int from) { return std::as_writable_bytes(slice(vectors_.front(), from)); },
      [&](int) { return std::as_bytes(slice(vectors_.front(), participants_.me)); });
}

bool MessageTreeSum::advance() {
  while (transfers_.test()) {
    switch (phase_) {
      case Phase::begin:
        collect();
        phase_ = Phase::collected;
        break;
      case Phase::collected:
        combine();
        spread();
        phase_ = Phase::spread;
        break;
      case Phase::spread:
        return true;
    }
  }
  return false;
}

MessageGather::MessageGather(Participants participants, std::span<float> values)
    : participants_(std::move(participants)) {
  for (int r = 0; r < participants_.size(); ++r) {
    parts_.push_back(std::as_writable_bytes(line_slice(values, r, participants_.size())));
  }
}

bool MessageGather::advance() {
  if (!std::exchange(begun_, true)) {
    exchange(
        transfers_, participants_, [&](int from) { return parts_[static_cast<std::size_t>(from)]; },
        [&](int) { return std::span<const std::byte>(parts_[static_cast<std::size_t>(participants_.me)]); });
  }
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

Progress::Entry::Entry(Progress& progress, Operation& operation) : progress_(progress), operation_(operation) {
  const std::lock_guard lock(progress_.mutex_);
  progress_.entries_.push_back(this);
  if (progress_.thread_.size() > 0) progress_.changed_.notify_one();
}

Progress::Entry::~Entry() {
  const std::lock_guard lock(progress_.mutex_);
  std::erase(progress_.entries_, this);
}

bool Progress::Entry::done() const {
  if (error_) std::rethrow_exception(error_);
  return done_;
}

Progress::~Progress() { stop_thread(); }

void Progress::stop_thread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void Progress::poll() {
  bool any_done = false;
  for (Entry* entry : entries_) {  // in the order of their starts
    try {
      entry->done_ = entry->operation_.advance();
    } catch (...) {
      entry->error_ = std::current_exception();
      entry->done_ = true;
    }
    any_done |= entry->done_;
  }
  if (any_done) std::erase_if(entries_, [](const Entry* entry) { return entry->done_; });
}

void Progress::start_thread() {
  if (thread_.size() == 0) thread_.start([this] { run(); });
}

bool Progress::can_sleep() const {
  return std::ranges::all_of(entries_, [](const Entry* entry) { return entry->operation_.is_patient(); });
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (can_sleep()) {
      changed_.wait(lock);
      continue;
    }
    poll();
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    lock.lock();
  }
}

}  // namespace unisono::comm::mpi
