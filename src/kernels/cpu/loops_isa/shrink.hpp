#pragma once

#include "unisono/kernels/in_place.hpp"

// What all linear models' updates share: weights of examples, penalties and the sums of averaged SGD; see LinearStep.

namespace unisono::kernels::cpu::UNISONO_ISA {

/// The rate for example i: multiplied by its weight, where there are weights.
__attribute__((always_inline)) static inline float rate_of(const LinearStep& step, Index i) {
  return step.weights == nullptr ? step.rate : step.rate * step.weights[i];
}

/// rate · λ of a step.
struct Shrinking {
  float l1, l2;
  explicit Shrinking(const LinearStep& step) : l1(step.rate * step.l1), l2(step.rate * step.l2) {}
};

/// w after a step of −`move` and both penalties, each multiplied by `spread`; neither penalty takes w beyond 0.
__attribute__((always_inline)) static inline float shrunk(float w, float move, const Shrinking& by, float spread) {
  const float decay = spread * by.l2, keep = decay > 1.0F ? 0.0F : 1.0F - decay;
  if (by.l1 == 0.0F) return keep * w - move;
  const float moved = keep * w - move, size = __builtin_fabsf(moved), less = spread * by.l1;
  return size < less ? 0.0F : moved - __builtin_copysignf(less, moved);
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
