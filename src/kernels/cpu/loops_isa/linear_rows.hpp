#pragma once

#include "cpu/in_place_loops.hpp"
#include "cpu/loops_isa/fold.hpp"
#include "cpu/loops_isa/shrink.hpp"
#include "cpu/loops_isa/vector.hpp"

// Margins and steps of a linear model's weights on one sparse row.

namespace unisono::kernels::cpu::UNISONO_ISA {

/// Weights of so many features stay in the first cache.
inline constexpr Count kInFirstCache = kFarFeatures;

/// One row's values [begin, end), or those of the features of a part.
struct Row {
  Count begin, end;
};
__attribute__((always_inline)) static inline Row row_of(const RowParts& parts, Count i) {
  return {static_cast<Count>(parts.begins[i]), static_cast<Count>(parts.ends[i])};
}
static inline RowParts whole_rows(const SparseExamples& rows) { return {rows.offsets, rows.offsets + 1}; }

/// w · x, in four sums.
template <bool kValues>
__attribute__((always_inline)) static inline float near_dot(const SparseExamples& rows, Row row, const float* w) {
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
__attribute__((always_inline)) static inline void update(const SparseExamples& rows, Row row, const Shares& shares,
                                                         float* w, float move, float before) {
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
// ---------------------
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
__attribute__((always_inline)) static inline float far_dot(const SparseExamples& rows, Row row, const float* w,
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
__attribute__((always_inline)) static inline void far_update(const SparseExamples& rows, Row row, const Shares& shares,
                                                             float* w, float move, float before,
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
__attribute__((always_inline)) static inline float far_dot(const SparseExamples& rows, Row row, const float* w,
                                                           float* = nullptr) {
  return near_dot<kValues>(rows, row, w);
}
#endif

/// `update`, with kept spreads where there are any. \param gathered null, or the row's weights as they are now
template <bool kValues, Penalty kPenalty, bool kAveraged>
__attribute__((always_inline)) static inline void step_row(const SparseExamples& rows, Row row, const Shares& shares,
                                                           float* w, float move, float before,
                                                           [[maybe_unused]] const float* gathered = nullptr) {
#if defined(__AVX512F__)
  if (kPenalty == Penalty::shrunk && shares.value_spread != nullptr) {
    return far_update<kValues, kAveraged>(rows, row, shares, w, move, before, gathered);
  }
#endif
  update<kValues, kPenalty, kAveraged>(rows, row, shares, w, move, before);
}

// The table of what weights keep
// ------------------------------

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

}  // namespace unisono::kernels::cpu::UNISONO_ISA
