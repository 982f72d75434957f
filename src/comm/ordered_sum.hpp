#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "unisono/comm/sum_tree.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::comm {

/// Operators of a reduction.
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
/// Bound by memory: each value is read once and written once per target; a cache line stays in registers between.
template <typename T, typename Combine>
void combine_in_order(std::span<const T* const> inputs, std::span<T* const> targets, Index n, Combine combine) {
  constexpr Index kLine = kAlignmentBytes / sizeof(T);
  // A target is mostly an input, too, and its cache line is in another core's cache. A prefetch for writing moves the
  // line once instead of twice. Measured with two cores: a sum of 1 MiB takes 49 instead of 70 µs.
  constexpr Index kAhead = 32 * kLine;
  const auto combine_line = [&](Index first, auto count) {  // the count is a constant where it can be
    T line[kLine];
    for (Index i = 0; i < count; ++i) line[i] = inputs[0][first + i];
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      const T* const input = inputs[r] + first;
      for (Index i = 0; i < count; ++i) line[i] = combine(line[i], input[i]);
    }
    for (T* const target : targets) {
      __builtin_prefetch(target + first + kAhead, 1);
      for (Index i = 0; i < count; ++i) target[first + i] = line[i];
    }
  };
  if (inputs.size() == 1 && targets.size() == 1 && inputs[0] == targets[0]) return;  // a group of one rank
  Index first = 0;
  for (; first + kLine <= n; first += kLine) combine_line(first, std::integral_constant<Index, kLine>{});
  if (first < n) combine_line(first, n - first);
}

/// target[i] ← the value of a postfix program over in[0][i], in[1][i], … (TreeSum::program). Each target may be one of
/// the inputs. Bound by memory, as above: values in between stay in the first cache.
inline void combine_in_tree(std::span<const float* const> inputs, std::span<const int> program,
                            std::span<float* const> targets, Index n) {
  constexpr Index kPiece = 512;  // 2 KiB
  std::vector<std::array<float, kPiece>> sums(inputs.size());
  std::vector<const float*> stack(inputs.size());
  for (Index first = 0; first < n; first += kPiece) {
    const Index count = std::min(kPiece, n - first);
    std::size_t depth = 0;
    for (const int operation : program) {
      if (operation != TreeSum::kAdd) {
        stack[depth++] = inputs[static_cast<std::size_t>(operation)] + first;
        continue;
      }
      --depth;
      const float* const left = stack[depth - 1];
      const float* const right = stack[depth];
      float* const sum = sums[depth - 1].data();
      for (Index i = 0; i < count; ++i) sum[i] = left[i] + right[i];
      stack[depth - 1] = sum;
    }
    const float* const total = stack[0];
    for (float* const target : targets) {
      if (target + first != total) std::copy(total, total + count, target + first);
    }
  }
}

}  // namespace unisono::comm
