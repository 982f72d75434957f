#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/loop_team.hpp"
#include "cpu/loops.hpp"

// What callers of Loops::product give it beside the shape.

namespace unisono::kernels::cpu {

/// The pairs of matrices whose products are added up by one call of Loops::product.
struct Pairs {
  std::vector<const float*> a, b;

  explicit Pairs(Index most) {
    a.reserve(static_cast<std::size_t>(most));
    b.reserve(static_cast<std::size_t>(most));
  }
  void clear() {
    a.clear();
    b.clear();
  }
  void add(const float* left, const float* right) {
    a.push_back(left);
    b.push_back(right);
  }
  Index count() const { return static_cast<Index>(a.size()); }
};

/// How many floats each step of a product must prefetch, so that the whole product prefetches `floats` of them.
inline Index fetch_step(const Loops& loops, const ProductShape& shape, Index count, Index floats) {
  const double steps = static_cast<double>(shape.m * shape.n * shape.k) * static_cast<double>(count);
  return static_cast<Index>(
      std::ceil(static_cast<double>(floats) * loops.multiply_adds_per_step / std::max(steps, 1.0)));
}

}  // namespace unisono::kernels::cpu
