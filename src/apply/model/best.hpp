#pragma once

#include <cstddef>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::apply {

/// A row and its score.
struct Scored {
  Index row = 0;
  double score = 0;
  bool operator==(const Scored&) const = default;
};

/// Collects the `count` rows with the largest scores; of equal scores the lower rows win.
class Best {
 public:
  explicit Best(std::size_t count) : count_(count) {}

  void offer(const Scored& candidate);
  /// Returns them, the largest first, and clears the object.
  std::vector<Scored> take();

 private:
  std::size_t count_;
  std::vector<Scored> kept_;  ///< a heap with the smallest in front
};

}  // namespace unisono::apply
