#pragma once

#include <span>

#include "cpu/chunks.hpp"
#include "cpu/vector_loops.hpp"
#include "unisono/kernels/update_kernels.hpp"

// How update rules iterate over the ranges of θ.

namespace unisono::kernels::cpu {

/// The factor of the gradient, see kernels::value_of.
inline float value_of(const GradientScale& scale) {
  return unisono::kernels::value_of(scale, scale.clip_norm == 0 ? 0 : scale.squared_norm.front());
}

/// The scalars of a step on one range: without decay where the range does not decay.
template <typename Step>
RangeStep<Step> step_on(const UpdateRange& range, const Step& step, float gradient_scale) {
  RangeStep<Step> own{step, gradient_scale};
  if (!range.decays) own.decay = 0;
  return own;
}

/// Calls work(first, length) for every chunk of a range; `first` is an offset in the whole vector.
template <typename Work>
void range_chunks(int threads, const UpdateRange& range, const Work& work) {
  parallel_chunks(threads, range.last - range.first,
                  [&](Index first, Index length) { work(range.first + first, length); });
}

/// Calls work(step, first, length) for the chunks of all ranges, each with the scalars of its range.
template <typename Step, typename Work>
void update_ranges(int threads, const Step& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                   const Work& work) {
  const float gradient_scale = value_of(scale);
  for (const UpdateRange& range : ranges) {
    const RangeStep<Step> own = step_on(range, step, gradient_scale);
    range_chunks(threads, range, [&](Index first, Index length) { work(own, first, length); });
  }
}

}  // namespace unisono::kernels::cpu
