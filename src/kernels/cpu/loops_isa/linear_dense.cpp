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

template <MarginLoss kLoss, bool kPenalties, bool kAveraged>
UNISONO_RACES_BY_DESIGN void run(const DenseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  const LinearWeights& weights = work.weights;
  float margins[kMarginBlock];
  for (Count start = 0; start < rows.count; start += kMarginBlock) {
    const Count count = rows.count - start < kMarginBlock ? rows.count - start : kMarginBlock;
    for (Count i = 0; i < count; ++i) {
      const float* const x = rows.values + (start + i) * rows.features;
      float z = dot(x, weights.weights, rows.features);
      if (weights.bias != nullptr) z += *weights.bias;
      margins[i] = z;
      const float move = rate_of(work.step, start + i) * derivative<kLoss>(z, rows.answers[start + i]);
      const auto before = static_cast<float>(work.step.updates_before + static_cast<double>(start + i));
      update<kPenalties, kAveraged>(x, rows.features, work, move, before);
      if (weights.bias == nullptr) continue;
      *weights.bias -= move;
      if (kAveraged) *weights.bias_sum -= before * move;
    }
    add_margins<kLoss>(margins, rows.answers + start, weights_from(work.step, start), count, sums);
  }
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
  switch (work.loss) {
    case MarginLoss::logistic:
      return choose<MarginLoss::logistic>(rows, work, sums);
    case MarginLoss::hinge:
      return choose<MarginLoss::hinge>(rows, work, sums);
    case MarginLoss::squared_hinge:
      return choose<MarginLoss::squared_hinge>(rows, work, sums);
    case MarginLoss::squared:
      return choose<MarginLoss::squared>(rows, work, sums);
  }
}

}  // namespace

void add_linear_dense(Loops& loops) { loops.in_place.linear_dense = linear_dense; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
