// Linear models on sparse rows in mini-batches: the margins of several rows first, then all their steps, so that no row
// waits for the one before. Also the same for a part of the features alone: its share of the margins, and its steps.
#include "cpu/loops_isa/linear_rows.hpp"
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/races.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

template <bool kValues>
UNISONO_RACES_BY_DESIGN void margins_of(const SparseExamples& rows, const RowParts& parts, const float* w, float bias,
                                        float* z) {
  const bool far = rows.width > kInFirstCache;
  for (Count i = rows.first; i < rows.last; ++i) {
    const Row row = row_of(parts, i);
    *z++ = bias + (far ? far_dot<kValues>(rows, row, w) : near_dot<kValues>(rows, row, w));
  }
}

void part_margins(const SparseExamples& rows, const RowParts& parts, const LinearWeights& weights, float* z) {
  const float bias = weights.bias != nullptr ? *weights.bias : 0.0F;
  (rows.values != nullptr ? margins_of<true> : margins_of<false>)(rows, parts, weights.weights, bias, z);
}

template <MarginLoss kLoss>
void moves_of(const float* targets, const float* weights, float rate, Count count, const float* z, float* moves) {
#pragma omp simd
  for (Count i = 0; i < count; ++i) moves[i] = rate * derivative<kLoss>(z[i], targets[i]);
  for (Count i = 0; weights != nullptr && i < count; ++i) moves[i] *= weights[i];
}

void moves(MarginLoss loss, const StepTargets& of, const float* z, float* to) {
  with_loss(loss, [&]<MarginLoss kLoss>() { moves_of<kLoss>(of.targets, of.weights, of.rate, of.count, z, to); });
}

void margin_sums(MarginLoss loss, const StepTargets& of, const float* z, InPlaceSums& sums) {
  with_loss(loss, [&]<MarginLoss kLoss>() { add_margins<kLoss>(z, of.targets, of.weights, of.count, sums); });
}

template <bool kValues, Penalty kPenalty, bool kAveraged>
UNISONO_RACES_BY_DESIGN void steps(const SparseExamples& rows, const RowParts& parts, const LinearWeights& weights,
                                   const Shares& shares, double before, const float* moves) {
  const float share = 1.0F / static_cast<float>(rows.last - rows.first);
  for (Count i = rows.first; i < rows.last; ++i) {
    const float move = *moves++;
    const auto made = static_cast<float>(before + static_cast<double>(i - rows.first));
    step_row<kValues, kPenalty, kAveraged>(rows, row_of(parts, i), shares, weights.weights, move, made);
    if (weights.bias == nullptr) continue;
    *weights.bias -= share * move;
    if (kAveraged) *weights.bias_sum -= made * (share * move);
  }
}

template <bool kValues, bool kAveraged>
void part_steps(const SparseExamples& rows, const RowParts& parts, const LinearWork& work, const float* keep,
                const float* moves) {
  const LinearStep& step = work.step;
  const Shares shares{Shrinking(step), step.spread, keep, step.value_spread, work.weights.weight_sums};
  const bool penalties = step.l1 != 0.0F || step.l2 != 0.0F;
  const auto make = !penalties        ? steps<kValues, Penalty::none, kAveraged>
                    : keep != nullptr ? steps<kValues, Penalty::kept, kAveraged>
                                      : steps<kValues, Penalty::shrunk, kAveraged>;
  make(rows, parts, work.weights, shares, step.updates_before, moves);
}

void part_steps(const SparseExamples& rows, const RowParts& parts, const LinearWork& work, const float* keep,
                const float* moves) {
  const bool values = rows.values != nullptr;
  if (work.weights.weight_sums != nullptr) {
    (values ? part_steps<true, true> : part_steps<false, true>)(rows, parts, work, keep, moves);
  } else {
    (values ? part_steps<true, false> : part_steps<false, false>)(rows, parts, work, keep, moves);
  }
}

void sparse_part_steps(const SparseExamples& rows, const RowParts& parts, const LinearWork& work, const float* moves) {
  part_steps(rows, parts, work, nullptr, moves);
}

void linear_sparse_batches(const SparseExamples& all, const LinearWork& work, InPlaceSums& sums) {
  if (all.first >= all.last) return;
  const RowParts parts = whole_rows(all);
  float to[kMostMiniBatch], keep[kMostKept];
  const bool kept = keeps_table(all, work.step);
  if (kept) fill_table(work.step, all.width, keep);
  const auto answers_of = [&](Count first, Count count) {
    return StepTargets{all.targets + first, weights_from(work.step, first), work.step.rate, count};
  };
  LinearStep step = work.step;
  SparseExamples rows = all;
  const auto train = [&](Count first, Count count, float* z) {
    rows.first = first;
    rows.last = first + count;
    part_margins(rows, parts, work.weights, z);
    moves(work.loss, answers_of(first, count), z, to);
    step.updates_before = work.step.updates_before + static_cast<double>(first - all.first);
    part_steps(rows, parts, {work.loss, step, work.weights}, kept ? keep : nullptr, to);
  };
  for_each_mini_batch(all.first, all.last, step.mini_batch, train, [&](Count first, Count count, const float* margins) {
    margin_sums(work.loss, answers_of(first, count), margins, sums);
  });
}

}  // namespace

void add_linear_sparse_batches(Loops& loops) {
  loops.in_place.linear_sparse_batches = linear_sparse_batches;
  loops.in_place.sparse_part_margins = part_margins;
  loops.in_place.sparse_part_steps = sparse_part_steps;
  loops.in_place.linear_moves = moves;
  loops.in_place.margin_sums = margin_sums;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
