#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "order/slice.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// Lets the ranks that open a set together decide alike. Every call is collective.
class Agreement {
 public:
  explicit Agreement(const NodeShare& share) : share_(share) {}

  int ranks() const { return ranks_; }
  /// Runs `work`, which is not collective, on every rank. Where it throws on some, it throws on all: there what was
  /// thrown, elsewhere an Error with the code and message of the first of them.
  void all_do(const std::function<void()>& work);
  /// Runs `work` on the job's first rank. \return its text, on every rank; what it throws is thrown on all
  std::string first_does(const std::function<std::string()>& work);
  /// The smallest and largest of the ranks' values.
  std::int64_t smallest(std::int64_t value);
  std::int64_t largest(std::int64_t value) { return -smallest(-value); }

 private:
  std::vector<std::string> gather(const std::string& text);
  const NodeShare& share_;
  int ranks_ = 1;
};

/// Zeroed memory of which the node has one copy, or, where that cannot be, this rank has its own.
class NodeMemory {
 public:
  /// Asks for memory that is shared. Collective over the node.
  NodeMemory(const NodeShare& share, std::size_t bytes);

  bool shared() const { return shared_; }
  /// Takes memory of this rank's own, where none is shared.
  void take_own();
  /// Null where none is shared and none was taken.
  std::byte* data() const { return data_; }
  /// This rank's part of n pieces of work whose results lie in this memory.
  Range part(std::int64_t n) const;
  /// After it, what all ranks of the node wrote can be read.
  void complete() const;

 private:
  const NodeShare& share_;
  std::size_t bytes_;
  Buffer own_;
  std::byte* data_ = nullptr;
  bool shared_ = false;
};

}  // namespace unisono::data
