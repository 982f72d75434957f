#pragma once

#include <cstddef>

#include "unisono/kernels/specs.hpp"

// The inner loops of vector algebra and update rules; see loops.hpp for what holds of all loops. Vectors need no
// alignment and do not overlap.

namespace unisono::cpu {

using Count = std::ptrdiff_t;

struct AlgebraLoops {
  double (*squared_norm)(const float* x, Count n);
  /// y = a x + b y; with b = 0 y is not read.
  void (*axpby)(float a, const float* x, float b, float* y, Count n);
};

/// See updates.cpp for the formulas.
struct UpdateLoops {
  void (*sgd)(const SgdStep& step, const float* g, float* theta, Count n);
  void (*momentum)(const SgdStep& step, const float* g, float* theta, float* velocity, Count n);
  void (*adagrad)(const AdagradStep& step, const float* g, float* theta, float* accumulator, Count n);
  void (*rmsprop)(const RmspropStep& step, const float* g, float* theta, float* mean_square, Count n);
  void (*adam)(const AdamStep& step, const float* g, float* theta, float* first, float* second, Count n);
  /// Σ direction²
  double (*lamb_moments)(const AdamStep& step, const float* g, const float* theta, float* first, float* second,
                         Count n);
  void (*lamb_apply)(const AdamStep& step, float ratio, float* theta, const float* first, const float* second, Count n);
};

}  // namespace unisono::cpu
