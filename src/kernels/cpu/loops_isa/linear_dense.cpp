// Linear models on contiguous rows of all features. 4 flops and 12 bytes per value, 8 of which are θ's, which stays in
// the cache.
#include "cpu/loops_isa/fold.hpp"
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/shrink.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/races.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// w · x, in four registers.
__attribute__((always_inline)) inline float dot(const float* x, const float* w, Count n) {
  Vector sums[4] = {};
  Count j = 0;
  for (; j + 4 * kLanes <= n; j += 4 * kLanes) {
#pragma GCC unroll 4
    for (Count i = 0; i < 4; ++i) sums[i] += load(x + j + i * kLanes) * load(w + j + i * kLanes);
  }
  for (; j + kLanes <= n; j += kLanes) sums[0] += load(x + j) * load(w + j);
  if (j < n) sums[1] += load_first(x + j, n - j) * load_first(w + j, n - j);
  return add_all_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]))[0];
}

/// w ← w − move x, shrunk.
template <bool kPenalties, bool kAveraged>
UNISONO_RACES_BY_DESIGN void update(const float* x, Count n, const LinearWork& work, float move, float before) {
  float* const w = work.weights.weights;
  float* const weight_sums = work.weights.weight_sums;
  const float* const spread = work.step.spread;
  const Shrinking by(work.step);
#pragma omp simd
  for (Count j = 0; j < n; ++j) {
    const float old = w[j], mine = move * x[j];
    const float fresh = kPenalties ? shrunk(old, mine, by, spread[j]) : old - mine;
    w[j] = fresh;
    if (kAveraged) weight_sums[j] += before * (fresh - old);
  }
}

/// The steps of rows on the features of a part, or on all; the bias takes their mean.
template <bool kPenalties, bool kAveraged>
UNISONO_RACES_BY_DESIGN void steps(const DenseExamples& rows, const LinearWork& work, const float* moves) {
  const LinearWeights& weights = work.weights;
  const float share = 1.0F / static_cast<float>(rows.count);
  for (Count i = 0; i < rows.count; ++i) {
    const auto before = static_cast<float>(work.step.updates_before + static_cast<double>(i));
    update<kPenalties, kAveraged>(rows.values + i * rows.stride, rows.features, work, moves[i], before);
    if (weights.bias == nullptr) continue;
    *weights.bias -= share * moves[i];
    if (kAveraged) *weights.bias_sum -= before * (share * moves[i]);
  }
}

/// z_i = w · x_i + b
UNISONO_RACES_BY_DESIGN void margins_of(const DenseExamples& rows, const LinearWeights& weights, float* z) {
  for (Count i = 0; i < rows.count; ++i) {
    z[i] = dot(rows.values + i * rows.stride, weights.weights, rows.features);
    if (weights.bias != nullptr) z[i] += *weights.bias;
  }
}

/// The examples [first, first + count).
DenseExamples part_of(const DenseExamples& rows, Count first, Count count) {
  return {rows.values + first * rows.stride, rows.targets + first, count, rows.features, rows.stride};
}

template <MarginLoss kLoss, bool kPenalties, bool kAveraged>
void run(const DenseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  float moves[kMostMiniBatch];
  LinearStep step = work.step;
  const auto train = [&](Count first, Count count, float* z) {
    const DenseExamples now = part_of(rows, first, count);
    margins_of(now, work.weights, z);
    for (Count i = 0; i < now.count; ++i) {
      moves[i] = rate_of(work.step, first + i) * derivative<kLoss>(z[i], now.targets[i]);
    }
    step.updates_before = work.step.updates_before + static_cast<double>(first);
    steps<kPenalties, kAveraged>(now, {work.loss, step, work.weights}, moves);
  };
  for_each_mini_batch(0, rows.count, step.mini_batch, train, [&](Count first, Count count, const float* margins) {
    add_margins<kLoss>(margins, rows.targets + first, weights_from(work.step, first), count, sums);
  });
}

template <MarginLoss kLoss>
void choose(const DenseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  const bool penalties = work.step.l1 != 0.0F || work.step.l2 != 0.0F;
  if (work.weights.weight_sums != nullptr) {
    (penalties ? run<kLoss, true, true> : run<kLoss, false, true>)(rows, work, sums);
  } else {
    (penalties ? run<kLoss, true, false> : run<kLoss, false, false>)(rows, work, sums);
  }
}

void linear_dense(const DenseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  with_loss(work.loss, [&]<MarginLoss kLoss>() { choose<kLoss>(rows, work, sums); });
}

void dense_part_steps(const DenseExamples& rows, const LinearWork& work, const float* moves) {
  const bool penalties = work.step.l1 != 0.0F || work.step.l2 != 0.0F;
  if (work.weights.weight_sums != nullptr) {
    (penalties ? steps<true, true> : steps<false, true>)(rows, work, moves);
  } else {
    (penalties ? steps<true, false> : steps<false, false>)(rows, work, moves);
  }
}

}  // namespace

void add_linear_dense(Loops& loops) {
  loops.in_place.linear_dense = linear_dense;
  loops.in_place.dense_part_margins = margins_of;
  loops.in_place.dense_part_steps = dense_part_steps;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
