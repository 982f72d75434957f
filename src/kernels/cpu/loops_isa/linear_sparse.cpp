#include "cpu/in_place_loops.hpp"
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"
#include "cpu/races.hpp"

// Linear models on sparse rows, one after the other. An example waits for an earlier one if they share a feature, so
// the latency from a row's weights to its new weights counts: margin, derivative, step. Where weights are in the first
// cache, plain loads and stores have the least. Where they are not, gathers have more of them under way: with them
// 28,000 features were 2.1 times as fast, 1.2 million 1.9 times (AVX-512, AMD), and the step of a thread that is alone
// takes the weights that the margin gathered: 1.1 times. Other instruction sets prefetch. Bytes
// per value: 8 of its row (4 where all values are 1), 4 of its spread where penalties keep that, and 8 of θ.
namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// Weights of so many features stay in the first cache.
inline constexpr Count kInFirstCache = kFarFeatures;

__attribute__((always_inline)) static inline ValueRange row_of(const ValueRanges& parts, Count i) {
  return {static_cast<Count>(parts.begins[i]), static_cast<Count>(parts.ends[i])};
}
static inline ValueRanges whole_rows(const SparseExamples& rows) { return {rows.offsets, rows.offsets + 1}; }

/// w · x, in four sums.
template <bool kValues>
__attribute__((always_inline)) static inline float near_dot(const SparseExamples& rows, ValueRange row,
                                                            const float* w) {
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

/// What is done to a weight beside the step.
enum class Penalty {
  none,
  kept,   ///< only λ₂, from a table of the factors that weights keep
  shrunk  ///< both
};

/// The penalties of a step, and the sums of averaged SGD.
struct Shares {
  Shrinking by;
  const float* spread;        ///< [features]
  const float* keep;          ///< [features] factors, of Penalty::kept
  float* const value_spread;  ///< see LinearStep
  float* weight_sums;         ///< of averaged SGD, or null
};

/// w_j ← w_j − move x_j, shrunk, for the row's features. They are distinct, so that several are read before the first
/// is written: a read does not wait for a write whose address is not yet known. \param before how many updates were
/// made
template <bool kValues, Penalty kPenalty, bool kAveraged>
__attribute__((always_inline)) static inline void update(const SparseExamples& rows, ValueRange row,
                                                         const Shares& shares, float* w, float move, float before) {
  constexpr Count kTogether = 8;
  const auto fresh = [&](Count k, Count j, float old) __attribute__((always_inline, no_sanitize("thread"))) {
    const float mine = kValues ? move * rows.values[k] : move;
    if (kPenalty == Penalty::none) return old - mine;
    if (kPenalty == Penalty::kept) return shares.keep[j] * old - mine;
    return shrunk(old, mine, shares.by, shares.spread[j]);
  };
  const auto put = [&](Count j, float old, float now) __attribute__((always_inline, no_sanitize("thread"))) {
    w[j] = now;
    if (kAveraged) shares.weight_sums[j] += before * (now - old);
  };
  Count k = row.begin;
  for (; k + kTogether <= row.end; k += kTogether) {
    Count j[kTogether];
    float old[kTogether], now[kTogether];
#pragma GCC unroll 8
    for (Count i = 0; i < kTogether; ++i) j[i] = rows.columns[k + i];
#pragma GCC unroll 8
    for (Count i = 0; i < kTogether; ++i) old[i] = w[j[i]];
#pragma GCC unroll 8
    for (Count i = 0; i < kTogether; ++i) now[i] = fresh(k + i, j[i], old[i]);
#pragma GCC unroll 8
    for (Count i = 0; i < kTogether; ++i) put(j[i], old[i], now[i]);
  }
  for (; k < row.end; ++k) {
    const Count j = rows.columns[k];
    put(j, w[j], fresh(k, j, w[j]));
  }
}

// Features that are far
// Gathers ask for sixteen weights at once, and the spreads of a row's features, which would be as far as their weights,
// are kept beside its values. What rows consist of is prefetched so far ahead that short rows and the jumps back of
// mini-batches do not interrupt it.

#if defined(__AVX512F__)
inline constexpr bool kGathers = true;

inline constexpr Count kRowsAhead = 1024;  ///< values

/// The first of `left` lanes, at most 16.
__attribute__((always_inline)) static inline __mmask16 first_lanes(Count left) {
  return static_cast<__mmask16>(left < kLanes ? (1U << left) - 1U : 0xFFFFU);
}

__attribute__((always_inline)) static inline Vector gather(const float* w, const std::uint32_t* columns,
                                                           __mmask16 mask) {
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, _mm512_maskz_loadu_epi32(mask, columns), w, 4);
}

/// \param gathered null, or room for the row's weights, rounded up to whole vectors
template <bool kValues>
__attribute__((always_inline)) static inline float far_dot(const SparseExamples& rows, ValueRange row, const float* w,
                                                           float* gathered = nullptr) {
  Vector sum{};
  for (Count k = row.begin; k < row.end; k += kLanes) {
    const __mmask16 mask = first_lanes(row.end - k);
    __builtin_prefetch(rows.columns + k + kRowsAhead);
    if (kValues) __builtin_prefetch(rows.values + k + kRowsAhead);
    const Vector weights = gather(w, rows.columns + k, mask);
    if (gathered != nullptr) store(gathered + (k - row.begin), weights);
    sum += kValues ? weights * _mm512_maskz_loadu_ps(mask, rows.values + k) : weights;
  }
  return add_all_lanes(sum)[0];
}

/// \param gathered null, or the row's weights as they are now
template <bool kValues, bool kAveraged>
__attribute__((always_inline)) static inline void far_update(const SparseExamples& rows, ValueRange row,
                                                             const Shares& shares, float* w, float move, float before,
                                                             const float* gathered) {
  if (row.begin < row.end && shares.value_spread[row.begin] == 0.0F) {  // the first visit
    for (Count k = row.begin; k < row.end; k += kLanes) {
      const __mmask16 mask = first_lanes(row.end - k);
      _mm512_mask_storeu_ps(shares.value_spread + k, mask, gather(shares.spread, rows.columns + k, mask));
    }
  }
  for (Count k = row.begin; k < row.end; k += kLanes) {
    const __mmask16 mask = first_lanes(row.end - k);
    __builtin_prefetch(shares.value_spread + k + kRowsAhead);
    const Vector x = kValues ? Vector(_mm512_maskz_loadu_ps(mask, rows.values + k)) : broadcast(1.0F);
    const Vector spread = _mm512_maskz_loadu_ps(mask, shares.value_spread + k);
    const Vector mine = broadcast(move) * x;
    const Vector before_it = gathered != nullptr ? load(gathered + (k - row.begin)) : gather(w, rows.columns + k, mask);
    Vector after;
    for (Count i = 0; i < kLanes; ++i) after[i] = shrunk(before_it[i], mine[i], shares.by, spread[i]);
    float now[kLanes], old[kLanes];
    store(now, after);
    if (kAveraged) store(old, before_it);
    const auto put = [&](Count i) __attribute__((always_inline, no_sanitize("thread"))) {
      const Count j = rows.columns[k + i];
      w[j] = now[i];
      if (kAveraged) shares.weight_sums[j] += before * (now[i] - old[i]);
    };
    if (k + kLanes <= row.end) {
#pragma GCC unroll 16
      for (Count i = 0; i < kLanes; ++i) put(i);
    } else {
      for (Count i = 0; i < row.end - k; ++i) put(i);
    }
  }
}
#else
inline constexpr bool kGathers = false;

template <bool kValues>
__attribute__((always_inline)) static inline float far_dot(const SparseExamples& rows, ValueRange row, const float* w,
                                                           float* = nullptr) {
  return near_dot<kValues>(rows, row, w);
}
#endif

/// `update`, with kept spreads where there are any. \param gathered null, or the row's weights as they are now
template <bool kValues, Penalty kPenalty, bool kAveraged>
__attribute__((always_inline)) static inline void step_row(const SparseExamples& rows, ValueRange row,
                                                           const Shares& shares, float* w, float move, float before,
                                                           [[maybe_unused]] const float* gathered = nullptr) {
#if defined(__AVX512F__)
  if (kPenalty == Penalty::shrunk && shares.value_spread != nullptr) {
    return far_update<kValues, kAveraged>(rows, row, shares, w, move, before, gathered);
  }
#endif
  update<kValues, kPenalty, kAveraged>(rows, row, shares, w, move, before);
}

// The table of what weights keep

inline constexpr Count kMostKept = 1024;  ///< features

/// Whether there is a table. The number of rows must not decide: compilers may round differently with one and without.
static inline bool keeps_table(const SparseExamples& rows, const LinearStep& step) {
  return step.l1 == 0.0F && step.l2 != 0.0F && rows.width <= kMostKept;
}

/// 1 − rate λ₂ s_j, at least 0.
static inline void fill_table(const LinearStep& step, Count features, float* keep) {
  const Shrinking by(step);
#pragma omp simd
  for (Count j = 0; j < features; ++j) {
    const float decay = step.spread[j] * by.l2;
    keep[j] = decay > 1.0F ? 0.0F : 1.0F - decay;
  }
}

constexpr Count kMostGathered = 512;  ///< weights of a row that its step need not gather again
constexpr Count kAhead = 192;         ///< how many values ahead weights are prefetched

/// Prefetches the weights of values after this row's, but not sums, for which no later example waits.
__attribute__((always_inline)) inline void fetch(const SparseExamples& rows, ValueRange row, Count last,
                                                 const float* weights, const float* spread) {
  const Count end = row.end + kAhead < last ? row.end + kAhead : last;
  for (Count k = row.begin + kAhead; k < end; ++k) {
    __builtin_prefetch(weights + rows.columns[k], 1);
    if (spread != nullptr) __builtin_prefetch(spread + rows.columns[k]);
  }
}

template <MarginLoss kLoss, bool kValues, Penalty kPenalty, bool kAveraged>
UNISONO_RACES_BY_DESIGN void run(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  const LinearWeights& weights = work.weights;
  const ValueRanges parts = whole_rows(rows);
  const bool far = rows.width > kInFirstCache;
  const auto last_value = static_cast<Count>(rows.offsets[rows.last]);
  alignas(64) float memory[kPenalty == Penalty::shrunk ? kMostGathered : 1];
  float keep[kPenalty == Penalty::kept ? kMostKept : 1], margins[kMarginBlock];
  if (kPenalty == Penalty::kept) fill_table(work.step, rows.width, keep);
  const Shares shares{Shrinking(work.step), work.step.spread, keep, work.step.value_spread, weights.weight_sums};
  for (Count start = rows.first; start < rows.last; start += kMarginBlock) {
    const Count count = rows.last - start < kMarginBlock ? rows.last - start : kMarginBlock;
    for (Count i = 0; i < count; ++i) {
      const ValueRange row = row_of(parts, start + i);
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

void linear_sparse(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  if (rows.first >= rows.last) return;
  with_loss(work.loss, [&]<MarginLoss kLoss>() {
    with_flag(rows.values != nullptr, [&]<bool kValues>() {
      with_flag(work.weights.weight_sums != nullptr,
                [&]<bool kAveraged>() { choose<kLoss, kValues, kAveraged>(rows, work, sums); });
    });
  });
}

UNISONO_RACES_BY_DESIGN void margins_sparse(const SparseExamples& rows, const LinearWeights& weights, float* margins) {
  const float bias = weights.bias != nullptr ? *weights.bias : 0.0F;
  const ValueRanges parts = whole_rows(rows);
  for (Count i = rows.first; i < rows.last; ++i) {
    const ValueRange row = row_of(parts, i);
    margins[i - rows.first] = bias + (rows.values != nullptr ? near_dot<true>(rows, row, weights.weights)
                                                             : near_dot<false>(rows, row, weights.weights));
  }
}

}  // namespace

void add_linear_sparse(Loops& loops) {
  loops.in_place.linear_sparse = linear_sparse;
  loops.in_place.margins_sparse = margins_sparse;
}

// Linear models on sparse rows in mini-batches: the margins of several rows first, then all their steps, so that no row
// waits for the one before. Also the same for a part of the features alone: its share of the margins, and its steps.

namespace {

template <bool kValues>
UNISONO_RACES_BY_DESIGN void margins_of(const SparseExamples& rows, const ValueRanges& parts, const float* w,
                                        float bias, float* z) {
  const bool far = rows.width > kInFirstCache;
  for (Count i = rows.first; i < rows.last; ++i) {
    const ValueRange row = row_of(parts, i);
    *z++ = bias + (far ? far_dot<kValues>(rows, row, w) : near_dot<kValues>(rows, row, w));
  }
}

void part_margins(const SparseExamples& rows, const ValueRanges& parts, const LinearWeights& weights, float* z) {
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
UNISONO_RACES_BY_DESIGN void steps(const SparseExamples& rows, const ValueRanges& parts, const LinearWeights& weights,
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
void part_steps(const SparseExamples& rows, const ValueRanges& parts, const LinearWork& work, const float* keep,
                const float* moves) {
  const LinearStep& step = work.step;
  const Shares shares{Shrinking(step), step.spread, keep, step.value_spread, work.weights.weight_sums};
  const bool penalties = step.l1 != 0.0F || step.l2 != 0.0F;
  const auto make = !penalties        ? steps<kValues, Penalty::none, kAveraged>
                    : keep != nullptr ? steps<kValues, Penalty::kept, kAveraged>
                                      : steps<kValues, Penalty::shrunk, kAveraged>;
  make(rows, parts, work.weights, shares, step.updates_before, moves);
}

void part_steps(const SparseExamples& rows, const ValueRanges& parts, const LinearWork& work, const float* keep,
                const float* moves) {
  with_flag(rows.values != nullptr, [&]<bool kValues>() {
    with_flag(work.weights.weight_sums != nullptr,
              [&]<bool kAveraged>() { part_steps<kValues, kAveraged>(rows, parts, work, keep, moves); });
  });
}

void sparse_part_steps(const SparseExamples& rows, const ValueRanges& parts, const LinearWork& work,
                       const float* moves) {
  part_steps(rows, parts, work, nullptr, moves);
}

void linear_sparse_batches(const SparseExamples& all, const LinearWork& work, InPlaceSums& sums) {
  if (all.first >= all.last) return;
  const ValueRanges parts = whole_rows(all);
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
