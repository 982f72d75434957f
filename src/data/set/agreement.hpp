#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "order/schedule.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// Collective decisions of the ranks that open a set together: all ranks get the same result or an error. Every call is
/// collective over the job.
class Agreement {
 public:
  explicit Agreement(const NodeShare& share) : share_(share) {}

  int ranks() const { return ranks_; }
  /// Runs `work`, which must not be collective, on every rank. If it throws on some ranks, all ranks throw: these
  /// rethrow their own exception, the others an Error with code and message of the first.
  void all_do(const std::function<void()>& work);
  /// Runs `work` on rank 0 of the job. \return its result, on every rank; an exception is thrown on all ranks
  std::string first_does(const std::function<std::string()>& work);
  /// The smallest and largest of the ranks' values.
  std::int64_t smallest(std::int64_t value);
  std::int64_t largest(std::int64_t value) { return -smallest(-value); }

 private:
  std::vector<std::string> gather(const std::string& text);
  const NodeShare& share_;
  int ranks_ = 1;
};

/// Zeroed memory for a resident set: one copy shared by the node's ranks or, where that is impossible, this rank's own.
class NodeMemory {
 public:
  /// Tries to allocate shared memory. Collective over the node.
  NodeMemory(const NodeShare& share, std::size_t bytes);

  bool shared() const { return shared_; }
  /// Allocates memory of this rank's own if none is shared.
  void take_own();
  /// Null if none is shared and take_own was not called.
  std::byte* data() const { return data_; }
  /// Which of n pieces of work this rank must do to fill this memory: its share of them if it is shared, else all.
  Range part(std::int64_t n) const;
  /// A barrier over the node's ranks: afterwards all that they wrote can be read.
  void complete() const;

 private:
  const NodeShare& share_;
  std::size_t bytes_;
  Buffer own_;
  std::byte* data_ = nullptr;
  bool shared_ = false;
};

}  // namespace unisono::data
