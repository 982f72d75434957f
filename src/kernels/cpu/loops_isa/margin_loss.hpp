#pragma once

#include "cpu/in_place_loops.hpp"
#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/vector_math.hpp"
#include "unisono/kernels/in_place.hpp"

// Losses of one margin z, and their sums over a block of examples. The margins of a block are stored first, so that
// computing the losses does not delay the updates, each of which waits for the one before.
namespace unisono::kernels::cpu::UNISONO_ISA {

/// Calls work.operator()<loss>(), with the loss as a constant.
template <typename Work>
__attribute__((always_inline)) static inline void with_loss(MarginLoss loss, const Work& work) {
  switch (loss) {
    case MarginLoss::logistic:
      return work.template operator()<MarginLoss::logistic>();
    case MarginLoss::hinge:
      return work.template operator()<MarginLoss::hinge>();
    case MarginLoss::squared_hinge:
      return work.template operator()<MarginLoss::squared_hinge>();
    case MarginLoss::squared:
      return work.template operator()<MarginLoss::squared>();
  }
}

/// Calls work.operator()<flag>(), with the flag as a constant.
template <typename Work>
__attribute__((always_inline)) static inline void with_flag(bool flag, const Work& work) {
  flag ? work.template operator()<true>() : work.template operator()<false>();
}

inline constexpr Count kMarginBlock = 256;  ///< examples

/// dℓ/dz
template <MarginLoss kLoss>
__attribute__((always_inline)) static inline float derivative(float z, float target) {
  if constexpr (kLoss == MarginLoss::squared) return z - target;
  if constexpr (kLoss == MarginLoss::logistic) return logistic_quickly(z) - target;
  const float y = 2.0F * target - 1.0F;
  if constexpr (kLoss == MarginLoss::squared_hinge) return y * z < 1.0F ? 2.0F * (z - y) : 0.0F;  // y² = 1
  return y * z < 1.0F ? -y : 0.0F;
}

template <MarginLoss kLoss>
__attribute__((always_inline)) static inline float loss_of(float z, float target) {
  if constexpr (kLoss == MarginLoss::squared) return 0.5F * (z - target) * (z - target);
  const float wrong = (1.0F - 2.0F * target) * z;  // −yz
  if constexpr (kLoss == MarginLoss::logistic) return (wrong < 0.0F ? 0.0F : wrong) + softplus_tail(wrong);
  const float slack = wrong < -1.0F ? 0.0F : 1.0F + wrong;
  return kLoss == MarginLoss::squared_hinge ? slack * slack : slack;
}

template <MarginLoss kLoss, bool kWeighted>
static inline void add_margins_of(const float* margins, const float* targets, const float* weights, Count count,
                                  InPlaceSums& sums) {
  constexpr bool classes = kLoss != MarginLoss::squared;
  double loss[kLanes] = {}, weighted[kLanes] = {}, absolute[kLanes] = {};
  std::int32_t correct[kLanes] = {};
  for (Count start = 0; start < count; start += kLanes) {
    const Count lanes = count - start < kLanes ? count - start : kLanes;
#pragma omp simd
    for (Count lane = 0; lane < lanes; ++lane) {
      const float z = margins[start + lane], target = targets[start + lane];
      const double own = static_cast<double>(loss_of<kLoss>(z, target));
      loss[lane] += own;
      if (kWeighted) weighted[lane] += static_cast<double>(weights[start + lane]) * own;
      if (classes) {
        correct[lane] += (target > 0.5F && z > 0.0F) || (target <= 0.5F && z <= 0.0F) ? 1 : 0;
      } else {
        absolute[lane] += static_cast<double>(__builtin_fabsf(z - target));
      }
    }
  }
  double whole = 0, whole_weighted = 0;
  for (Count lane = 0; lane < kLanes; ++lane) {
    whole += loss[lane];
    whole_weighted += weighted[lane];
    sums.correct += correct[lane];
    sums.absolute_error += absolute[lane];
  }
  sums.loss += kWeighted ? whole_weighted : whole;
  if (!classes) sums.squared_error += 2.0 * whole;
}

/// \param weights one for each target; null: all are 1
template <MarginLoss kLoss>
static inline void add_margins(const float* margins, const float* targets, const float* weights, Count count,
                               InPlaceSums& sums) {
  (weights == nullptr ? add_margins_of<kLoss, false> : add_margins_of<kLoss, true>)(margins, targets, weights, count,
                                                                                    sums);
}

/// Calls train(first, count, z) for each mini-batch of the examples [first, last), which stores their margins to z;
/// after some of them add_up(first, count, margins), for all of their examples at once.
template <typename Train, typename AddUp>
__attribute__((always_inline)) static inline void for_each_mini_batch(Count first, Count last, Count batch,
                                                                      const Train& train, const AddUp& add_up) {
  const Count group = batch < kMarginBlock ? kMarginBlock / batch * batch : batch;
  float margins[kMostMiniBatch];
  for (Count start = first; start < last; start += group) {
    const Count end = start + group < last ? start + group : last;
    for (Count at = start; at < end; at += batch) {
      train(at, at + batch < end ? batch : end - at, margins + (at - start));
    }
    add_up(start, end - start, margins);
  }
}

/// The weights of the examples from number `first` on; null where there are none.
static inline const float* weights_from(const LinearStep& step, Count first) {
  return step.weights == nullptr ? nullptr : step.weights + first;
}

// What all linear models' updates share: weights of examples, penalties and the sums of averaged SGD; see LinearStep.

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
