// Linear models on sparse rows, one after the other. An example waits for an earlier one if they share a feature, so
// the latency from a row's weights to its new weights counts: margin, derivative, step. Where weights are in the first
// cache, plain loads and stores have the least. Where they are not, gathers have more of them under way: with them
// 28,000 features were 2.1 times as fast, 1.2 million 1.9 times (AVX-512, AMD), and the step of a thread that is alone
// takes the weights that the margin gathered: 1.1 times. Other instruction sets prefetch. Bytes
// per value: 8 of its row (4 where all values are 1), 4 of its spread where penalties keep that, and 8 of θ.
#include "cpu/loops_isa/linear_rows.hpp"
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/races.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kMostGathered = 512;  ///< weights of a row that its step need not gather again
constexpr Count kAhead = 192;         ///< how many values ahead weights are prefetched

/// Prefetches the weights of values after this row's, but not sums, for which no later example waits.
__attribute__((always_inline)) inline void fetch(const SparseExamples& rows, Row row, Count last, const float* weights,
                                                 const float* spread) {
  const Count end = row.end + kAhead < last ? row.end + kAhead : last;
  for (Count k = row.begin + kAhead; k < end; ++k) {
    __builtin_prefetch(weights + rows.columns[k], 1);
    if (spread != nullptr) __builtin_prefetch(spread + rows.columns[k]);
  }
}

template <MarginLoss kLoss, bool kValues, Penalty kPenalty, bool kAveraged>
UNISONO_RACES_BY_DESIGN void run(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  const LinearWeights& weights = work.weights;
  const RowParts parts = whole_rows(rows);
  const bool far = rows.width > kInFirstCache;
  const auto last_value = static_cast<Count>(rows.offsets[rows.last]);
  alignas(64) float memory[kPenalty == Penalty::shrunk ? kMostGathered : 1];
  float keep[kPenalty == Penalty::kept ? kMostKept : 1], margins[kMarginBlock];
  if (kPenalty == Penalty::kept) fill_table(work.step, rows.width, keep);
  const Shares shares{Shrinking(work.step), work.step.spread, keep, work.step.value_spread, weights.weight_sums};
  for (Count start = rows.first; start < rows.last; start += kMarginBlock) {
    const Count count = rows.last - start < kMarginBlock ? rows.last - start : kMarginBlock;
    for (Count i = 0; i < count; ++i) {
      const Row row = row_of(parts, start + i);
      if (far && !kGathers) {
        fetch(rows, row, last_value, weights.weights, kPenalty != Penalty::none ? work.step.spread : nullptr);
      }
      const bool keeps = kPenalty == Penalty::shrunk && work.step.alone && row.end - row.begin <= kMostGathered;
      float* const gathered = keeps ? memory : nullptr;
      float z =
          far ? far_dot<kValues>(rows, row, weights.weights, gathered) : near_dot<kValues>(rows, row, weights.weights);
      if (weights.bias != nullptr) z += *weights.bias;
      margins[i] = z;
      const float move = rate_of(work.step, start + i) * derivative<kLoss>(z, rows.targets[start + i]);
      const auto before = static_cast<float>(work.step.updates_before + static_cast<double>(start + i - rows.first));
      step_row<kValues, kPenalty, kAveraged>(rows, row, shares, weights.weights, move, before,
                                             far ? gathered : nullptr);
      if (weights.bias == nullptr) continue;
      *weights.bias -= move;
      if (kAveraged) *weights.bias_sum -= before * move;
    }
    add_margins<kLoss>(margins, rows.targets + start, weights_from(work.step, start), count, sums);
  }
}

template <MarginLoss kLoss, bool kValues, bool kAveraged>
void choose(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  if (work.step.l1 == 0.0F && work.step.l2 == 0.0F) {
    run<kLoss, kValues, Penalty::none, kAveraged>(rows, work, sums);
  } else if (keeps_table(rows, work.step)) {
    run<kLoss, kValues, Penalty::kept, kAveraged>(rows, work, sums);
  } else {
    run<kLoss, kValues, Penalty::shrunk, kAveraged>(rows, work, sums);
  }
}

template <MarginLoss kLoss, bool kValues>
void choose(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  (work.weights.weight_sums != nullptr ? choose<kLoss, kValues, true> : choose<kLoss, kValues, false>)(rows, work,
                                                                                                       sums);
}

template <MarginLoss kLoss>
void choose(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  (rows.values != nullptr ? choose<kLoss, true> : choose<kLoss, false>)(rows, work, sums);
}

void linear_sparse(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  if (rows.first >= rows.last) return;
  with_loss(work.loss, [&]<MarginLoss kLoss>() { choose<kLoss>(rows, work, sums); });
}

UNISONO_RACES_BY_DESIGN void margins_sparse(const SparseExamples& rows, const LinearWeights& weights, float* margins) {
  const float bias = weights.bias != nullptr ? *weights.bias : 0.0F;
  const RowParts parts = whole_rows(rows);
  for (Count i = rows.first; i < rows.last; ++i) {
    const Row row = row_of(parts, i);
    margins[i - rows.first] = bias + (rows.values != nullptr ? near_dot<true>(rows, row, weights.weights)
                                                             : near_dot<false>(rows, row, weights.weights));
  }
}

}  // namespace

void add_linear_sparse(Loops& loops) {
  loops.in_place.linear_sparse = linear_sparse;
  loops.in_place.margins_sparse = margins_sparse;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
