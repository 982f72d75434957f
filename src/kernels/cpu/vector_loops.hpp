#pragma once

#include <cstddef>

#include "unisono/kernels/update_steps.hpp"

// The inner loops of vector algebra and update rules; see loops.hpp for what holds of all loops. Vectors need no
// alignment and do not overlap, but for axpby's, where y may be x.

namespace unisono::kernels::cpu {

using Count = std::ptrdiff_t;

struct AlgebraLoops {
  /// sum[0] + sum[1] = Σ x² to within 2⁻⁵¹ of it, which is more than a double holds
  void (*squared_norm)(const float* x, Count n, double* sum);
  /// x may be y.
  double (*dot)(const float* x, const float* y, Count n);
  /// y = a x + b y; with b = 0 y is not read.
  void (*axpby)(float a, const float* x, float b, float* y, Count n);
};

/// A rule's step on one range of θ: its decay is 0 where there is none, and g is read as gradient_scale · g.
template <typename Step>
struct RangeStep : Step {
  float gradient_scale = 1;
};

/// See updates.cpp for the formulas.
struct UpdateLoops {
  void (*sgd)(const RangeStep<SgdStep>& step, const float* g, float* theta, Count n);
  void (*momentum)(const RangeStep<SgdStep>& step, const float* g, float* theta, float* velocity, Count n);
  void (*adagrad)(const RangeStep<AdagradStep>& step, const float* g, float* theta, float* accumulator, Count n);
  void (*rmsprop)(const RangeStep<RmspropStep>& step, const float* g, float* theta, float* mean_square, Count n);
  void (*adam)(const RangeStep<AdamStep>& step, const float* g, float* theta, float* first, float* second, Count n);
  /// sum[0] + sum[1] = Σ direction², as squared_norm
  void (*lamb_moments)(const RangeStep<AdamStep>& step, const float* g, const float* theta, float* first, float* second,
                       Count n, double* sum);
  /// The directions that lamb_moments summed, again.
  void (*lamb_directions)(const RangeStep<AdamStep>& step, const float* theta, const float* first, const float* second,
                          float* directions, Count n);
  void (*lamb_apply)(const RangeStep<AdamStep>& step, float ratio, float* theta, const float* first,
                     const float* second, Count n);
};

}  // namespace unisono::kernels::cpu
