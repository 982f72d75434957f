// Linear models on sparse rows. An example waits for an earlier one if they share a feature, so the latency from a
// row's weights to its new weights counts: margin, derivative, step. Plain loads and stores have the least: gathering
// and scattering 16 weights at once takes as many cycles, and scattered values can be gathered only when they have
// reached the cache (measured on rows of 14 ones: 26 against 41 million examples per second). Bytes per value: 8 of its
// row (4 where all values are 1) and 8 of θ.
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/shrink.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/races.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kAhead = 192;          ///< how many values ahead weights are prefetched
constexpr Count kInFirstCache = 8192;  ///< so many features' weights need no prefetch

/// One row's values [begin, end).
struct Row {
  Count begin, end;
};

__attribute__((always_inline)) inline Row row_of(const SparseExamples& rows, Count i) {
  return {static_cast<Count>(rows.offsets[i]), static_cast<Count>(rows.offsets[i + 1])};
}

/// Prefetches the weights of values after this row's, but not spreads and sums, for which no later example waits.
__attribute__((always_inline)) inline void fetch(const SparseExamples& rows, Row row, Count last, const float* weights,
                                                 const float* spread) {
  const Count end = row.end + kAhead < last ? row.end + kAhead : last;
  for (Count k = row.begin + kAhead; k < end; ++k) {
    __builtin_prefetch(weights + rows.columns[k], 1);
    if (spread != nullptr) __builtin_prefetch(spread + rows.columns[k]);
  }
}

/// w · x, in four sums.
template <bool kValues>
__attribute__((always_inline)) inline float dot(const SparseExamples& rows, Row row, const float* w) {
  const auto product = [&](Count k) __attribute__((always_inline, no_sanitize("thread"))) {
    return kValues ? w[rows.columns[k]] * rows.values[k] : w[rows.columns[k]];
  };
  float sums[4] = {};
  Count k = row.begin;
  for (; k + 4 <= row.end; k += 4) {
#pragma GCC unroll 4
    for (Count i = 0; i < 4; ++i) sums[i] += product(k + i);
  }
  for (; k < row.end; ++k) sums[0] += product(k);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// w_j ← w_j − move x_j, shrunk, for the row's features. \param before how many updates were made
template <bool kValues, bool kPenalties, bool kAveraged>
__attribute__((always_inline)) inline void update(const SparseExamples& rows, Row row, const LinearWork& work,
                                                  float move, float before) {
  float* const w = work.weights.weights;
  const Shrinking by(work.step);
#pragma GCC unroll 4
  for (Count k = row.begin; k < row.end; ++k) {
    const Count j = rows.columns[k];
    const float old = w[j], mine = kValues ? move * rows.values[k] : move;
    const float fresh = kPenalties ? shrunk(old, mine, by, work.step.spread[j]) : old - mine;
    w[j] = fresh;
    if (kAveraged) work.weights.weight_sums[j] += before * (fresh - old);
  }
}

template <MarginLoss kLoss, bool kValues, bool kPenalties, bool kAveraged>
UNISONO_RACES_BY_DESIGN void run(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  const LinearWeights& weights = work.weights;
  const bool far = rows.width > kInFirstCache;
  const auto last_value = static_cast<Count>(rows.offsets[rows.last]);
  float margins[kMarginBlock];
  for (Count start = rows.first; start < rows.last; start += kMarginBlock) {
    const Count count = rows.last - start < kMarginBlock ? rows.last - start : kMarginBlock;
    for (Count i = 0; i < count; ++i) {
      const Row row = row_of(rows, start + i);
      if (far) fetch(rows, row, last_value, weights.weights, kPenalties ? work.step.spread : nullptr);
      float z = dot<kValues>(rows, row, weights.weights);
      if (weights.bias != nullptr) z += *weights.bias;
      margins[i] = z;
      const float move = rate_of(work.step, start + i) * derivative<kLoss>(z, rows.answers[start + i]);
      const auto before = static_cast<float>(work.step.updates_before + static_cast<double>(start + i - rows.first));
      update<kValues, kPenalties, kAveraged>(rows, row, work, move, before);
      if (weights.bias == nullptr) continue;
      *weights.bias -= move;
      if (kAveraged) *weights.bias_sum -= before * move;
    }
    add_margins<kLoss>(margins, rows.answers + start, weights_from(work.step, start), count, sums);
  }
}

template <MarginLoss kLoss, bool kValues>
void choose(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  const bool penalties = work.step.l1 != 0.0F || work.step.l2 != 0.0F;
  if (work.weights.weight_sums != nullptr) {
    (penalties ? run<kLoss, kValues, true, true> : run<kLoss, kValues, false, true>)(rows, work, sums);
  } else {
    (penalties ? run<kLoss, kValues, true, false> : run<kLoss, kValues, false, false>)(rows, work, sums);
  }
}

template <MarginLoss kLoss>
void choose(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  (rows.values != nullptr ? choose<kLoss, true> : choose<kLoss, false>)(rows, work, sums);
}

void linear_sparse(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  if (rows.first >= rows.last) return;
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

UNISONO_RACES_BY_DESIGN void margins_sparse(const SparseExamples& rows, const LinearWeights& weights, float* margins) {
  const float bias = weights.bias != nullptr ? *weights.bias : 0.0F;
  for (Count i = rows.first; i < rows.last; ++i) {
    const Row row = row_of(rows, i);
    margins[i - rows.first] = bias + (rows.values != nullptr ? dot<true>(rows, row, weights.weights)
                                                             : dot<false>(rows, row, weights.weights));
  }
}

}  // namespace

void add_linear_sparse(Loops& loops) {
  loops.in_place.linear_sparse = linear_sparse;
  loops.in_place.margins_sparse = margins_sparse;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
