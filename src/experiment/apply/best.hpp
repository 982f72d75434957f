#pragma once

#include <cstddef>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::experiment {

struct Scored {
  Index row = 0;
  double score = 0;
  bool operator==(const Scored&) const = default;
};

/// The `count` rows with the largest scores of all that are offered; of equal ones the lower rows.
class Best {
 public:
  explicit Best(std::size_t count) : count_(count) {}

  void offer(const Scored& candidate);
  /// The largest first. Empties it.
  std::vector<Scored> take();

 private:
  std::size_t count_;
  std::vector<Scored> kept_;  ///< a heap, with the least of them in front
};

}  // namespace unisono::experiment
