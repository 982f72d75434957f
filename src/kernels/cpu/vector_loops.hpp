#pragma once

#include <cstddef>

#include "unisono/kernels/update_steps.hpp"

// The inner loops of vector algebra and update rules; loops.hpp says what all loops have in common. Vectors need no
// alignment. They must not overlap, except where `y may be x` is said.

namespace unisono::kernels::cpu {

using Count = std::ptrdiff_t;

struct AlgebraLoops {
  /// sum[0] + sum[1] = Σ x², with a relative error of at most 2⁻⁵¹ before the two are added
  void (*squared_norm)(const float* x, Count n, double* sum);
  /// x may be y.
  double (*dot)(const float* x, const float* y, Count n);
  /// y = a x + b y; with b = 0 y is not read. y may be x.
  void (*axpby)(float a, const float* x, float b, float* y, Count n);
};

/// The scalars of a rule's step on one range of θ: `decay` is 0 where the range has none, and g stands for
/// gradient_scale · g.
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
  /// Computes the directions again whose squares lamb_moments has summed.
  void (*lamb_directions)(const RangeStep<AdamStep>& step, const float* theta, const float* first, const float* second,
                          float* directions, Count n);
  void (*lamb_apply)(const RangeStep<AdamStep>& step, float ratio, float* theta, const float* first,
                     const float* second, Count n);
};

}  // namespace unisono::kernels::cpu
