#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// How two values become one.
struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

/// target[i] ← in[0][i] ∘ in[1][i] ∘ …, in the order of the inputs: every rank that computes it gets the same bits, and
/// no path (window, messages, threads) differs from another. Each target may be one of the inputs.
///
/// \param inputs  P pointers to n values
/// \param targets any number of pointers to n values, overwritten
template <typename T, typename Combine>
void combine_in_order(std::span<const T* const> inputs, std::span<T* const> targets, Index n, Combine combine) {
  constexpr Index kBlock = 2048;  // values: the partial result stays in the first-level cache
  alignas(kAlignmentBytes) T partial[kBlock];
  for (Index first = 0; first < n; first += kBlock) {
    const Index count = std::min(kBlock, n - first);
    std::copy_n(inputs[0] + first, count, partial);
    for (const T* input : inputs.subspan(1)) {
      for (Index i = 0; i < count; ++i) partial[i] = combine(partial[i], input[first + i]);
    }
    for (T* target : targets) std::copy_n(partial, count, target + first);
  }
}

}  // namespace unisono
