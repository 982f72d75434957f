#pragma once

#include <algorithm>
#include <array>

#include "cpu/layer_loops.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cpu {

/// The examples' weights of some lanes; where there are none, nothing is copied.
class LaneWeights {
 public:
  /// \param weights of all examples, or empty \param first the example of the first lane
  LaneWeights(View weights, Index first, Index used) : any_(!weights.empty()) {
    if (!any_) return;
    values_.fill(0.0F);
    std::copy_n(weights.begin() + first, used, values_.begin());
  }

  bool any() const { return any_; }
  /// [kMaximumLanes], zeros in lanes without an example; null where there are no weights.
  const float* values() const { return any_ ? values_.data() : nullptr; }

 private:
  bool any_;
  std::array<float, static_cast<std::size_t>(kMaximumLanes)> values_;
};

}  // namespace unisono::kernels::cpu
