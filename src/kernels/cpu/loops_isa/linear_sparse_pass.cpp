// Sparse rows: all margins with one θ, and what their derivatives add to the features' gradients. Nothing waits for an
// earlier row, so that loads overlap. Plain loads are fastest where the weights are in the first cache, gathering where
// they are not (on rows of 50 values of 1,250,000 features 1.4 against 2.3 ns a value; prefetching gains nothing).
#include "cpu/in_place_loops.hpp"
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kInFirstCache = 8192;  ///< so many weights need no gathering

/// Two columns, loaded at once.
struct Columns {
  Count first, second;
};
__attribute__((always_inline)) inline Columns two_columns(const std::uint32_t* from) {
#if defined(__x86_64__)
  std::uint64_t both;
  __builtin_memcpy(&both, from, sizeof both);
  return {static_cast<Count>(both & 0xFFFFFFFFU), static_cast<Count>(both >> 32)};
#else
  return {static_cast<Count>(from[0]), static_cast<Count>(from[1])};
#endif
}

/// w · x of the values [k, end), in four sums.
template <bool kValues>
__attribute__((always_inline)) inline float dot(const SparseExamples& rows, Count k, Count end, const float* w) {
  const std::uint32_t* const columns = rows.columns;
  const auto product = [&](Count at, Count column) __attribute__((always_inline)) {
    return kValues ? w[column] * rows.values[at] : w[column];
  };
  float sums[4] = {};
  for (; k + 4 <= end; k += 4) {
    const Columns low = two_columns(columns + k), high = two_columns(columns + k + 2);
    sums[0] += product(k, low.first);
    sums[1] += product(k + 1, low.second);
    sums[2] += product(k + 2, high.first);
    sums[3] += product(k + 3, high.second);
  }
  for (; k < end; ++k) sums[0] += product(k, static_cast<Count>(columns[k]));
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

#if defined(__AVX512F__)
template <bool kValues>
__attribute__((always_inline)) inline float gathered_dot(const SparseExamples& rows, Count k, Count end,
                                                         const float* w) {
  Vector sum{};
  for (; k < end; k += kLanes) {
    const auto mask = static_cast<__mmask16>(end - k >= kLanes ? 0xFFFFU : (1U << (end - k)) - 1U);
    const __m512i columns = _mm512_maskz_loadu_epi32(mask, rows.columns + k);
    const Vector weights = _mm512_mask_i32gather_ps(Vector{}, mask, columns, w, 4);
    sum += kValues ? _mm512_maskz_loadu_ps(mask, rows.values + k) * weights : weights;
  }
  return add_all_lanes(sum)[0];
}
#else
template <bool kValues>
__attribute__((always_inline)) inline float gathered_dot(const SparseExamples& rows, Count k, Count end,
                                                         const float* w) {
  return dot<kValues>(rows, k, end, w);
}
#endif

template <bool kValues, bool kFar>
void margins_of(const SparseExamples& rows, const MarginVector& w, const MarginVector& v, float* z, float* u) {
  constexpr auto one = kFar ? gathered_dot<kValues> : dot<kValues>;
  for (Count i = rows.first; i < rows.last; ++i) {
    const auto begin = static_cast<Count>(rows.offsets[i]), end = static_cast<Count>(rows.offsets[i + 1]);
    *z++ = w.bias + one(rows, begin, end, w.weights);
    if (v.weights != nullptr) *u++ = v.bias + one(rows, begin, end, v.weights);
  }
}

void sparse_margins(const SparseExamples& rows, const MarginVector& w, const MarginVector& v, float* z, float* u) {
  constexpr Index kMostGathered = Index{1} << 31;  // instructions that gather take signed numbers
  const bool far = rows.width > kInFirstCache && rows.width <= kMostGathered;
  if (rows.values != nullptr) {
    (far ? margins_of<true, true> : margins_of<true, false>)(rows, w, v, z, u);
  } else {
    (far ? margins_of<false, true> : margins_of<false, false>)(rows, w, v, z, u);
  }
}

using Pair = float __attribute__((vector_size(2 * sizeof(float))));

template <bool kValues>
void pairs_of(const SparseExamples& rows, const float* pairs, Pair biases, float* z, float* u) {
  const auto product = [&](Count at, Count column) __attribute__((always_inline)) {
    Pair both;
    __builtin_memcpy(&both, pairs + 2 * column, sizeof both);
    return kValues ? both * rows.values[at] : both;
  };
  for (Count i = rows.first; i < rows.last; ++i) {
    auto k = static_cast<Count>(rows.offsets[i]);
    const auto end = static_cast<Count>(rows.offsets[i + 1]);
    Pair even = biases, odd = {};
    for (; k + 2 <= end; k += 2) {
      const Columns columns = two_columns(rows.columns + k);
      even += product(k, columns.first);
      odd += product(k + 1, columns.second);
    }
    if (k < end) even += product(k, static_cast<Count>(rows.columns[k]));
    even += odd;
    *z++ = even[0];
    *u++ = even[1];
  }
}

void sparse_pairs(const SparseExamples& rows, const float* pairs, float w_bias, float v_bias, float* z, float* u) {
  const Pair biases = {w_bias, v_bias};
  (rows.values != nullptr ? pairs_of<true> : pairs_of<false>)(rows, pairs, biases, z, u);
}

/// The first value of [begin, end) whose column is at least `low`: a search without branches.
__attribute__((always_inline)) inline Count first_from(const std::uint32_t* columns, Count begin, Count end,
                                                       Count low) {
  for (Count count = end - begin; count > 0;) {
    const Count half = (count + 1) / 2;
    begin += static_cast<Count>(columns[begin + half - 1]) < low ? half : 0;
    count -= half;
  }
  return begin;
}

/// The values of row i whose features are in [low, high).
__attribute__((always_inline)) inline ValueRange part_of(const SparseExamples& rows, Count i, Count low, Count high) {
  const auto begin = static_cast<Count>(rows.offsets[i]), end = static_cast<Count>(rows.offsets[i + 1]);
  return {low > 0 ? first_from(rows.columns, begin, end, low) : begin,
          high < rows.width ? first_from(rows.columns, begin, end, high) : end};
}

template <bool kValues>
void add_values(const SparseExamples& rows, const float* d, Count low, Count high, float* g) {
  const std::uint32_t* const columns = rows.columns;
  for (Count i = rows.first; i < rows.last; ++i) {
    const ValueRange part = part_of(rows, i, low, high);
    const float slope = *d++;
    const auto addend = [&](Count at) __attribute__((always_inline)) {
      return kValues ? slope * rows.values[at] : slope;
    };
    Count k = part.begin;
    for (; k + 4 <= part.end; k += 4) {
      const Columns first = two_columns(columns + k), second = two_columns(columns + k + 2);
      g[first.first] += addend(k);
      g[first.second] += addend(k + 1);
      g[second.first] += addend(k + 2);
      g[second.second] += addend(k + 3);
    }
    for (; k < part.end; ++k) g[columns[k]] += addend(k);
  }
}

void sparse_add(const SparseExamples& rows, const float* d, Count low, Count high, float* g) {
  (rows.values != nullptr ? add_values<true> : add_values<false>)(rows, d, low, high, g);
}

template <bool kValues>
void add_outer(const SparseExamples& rows, const float* d, Count low, Count high, float* h, Count stride) {
  for (Count i = rows.first; i < rows.last; ++i) {
    const ValueRange part = part_of(rows, i, low, high);
    const auto begin = static_cast<Count>(rows.offsets[i]);
    const float slope = *d++;
    for (Count j = part.begin; j < part.end; ++j) {
      float* const row = h + static_cast<Count>(rows.columns[j]) * stride;
      const float factor = kValues ? slope * rows.values[j] : slope;
      for (Count k = begin; k <= j; ++k) row[rows.columns[k]] += kValues ? factor * rows.values[k] : factor;
    }
  }
}

void sparse_add_outer(const SparseExamples& rows, const float* d, Count low, Count high, float* h, Count stride) {
  (rows.values != nullptr ? add_outer<true> : add_outer<false>)(rows, d, low, high, h, stride);
}

// Rows of weights

template <Count registers>
void add_weights(const SparseExamples& rows, Count i, const WeightRows& w, Count at, float* z) {
  Vector even[registers] = {}, odd[registers] = {};
  const auto add = [&](Vector(&sums)[registers], Count k) __attribute__((always_inline)) {
    const float* const from = w.weights + static_cast<Count>(rows.columns[k]) * w.width + at;
    const Vector x = broadcast(rows.values != nullptr ? rows.values[k] : 1.0F);
#pragma GCC unroll 4
    for (Count r = 0; r < registers; ++r) sums[r] += x * load(from + r * kLanes);
  };
  if (w.bias != nullptr) {
    for (Count r = 0; r < registers; ++r) even[r] = load(w.bias + at + r * kLanes);
  }
  auto k = static_cast<Count>(rows.offsets[i]);
  const auto end = static_cast<Count>(rows.offsets[i + 1]);
  for (; k + 2 <= end; k += 2) {
    add(even, k);
    add(odd, k + 1);
  }
  if (k < end) add(even, k);
  for (Count r = 0; r < registers; ++r) store(z + at + r * kLanes, even[r] + odd[r]);
}

void sparse_rows(const SparseExamples& rows, const WeightRows& w, float* z) {
  for (Count i = rows.first; i < rows.last; ++i, z += w.width) {
    Count at = 0;
    for (; at + 4 * kLanes <= w.width; at += 4 * kLanes) add_weights<4>(rows, i, w, at, z);
    for (; at < w.width; at += kLanes) add_weights<1>(rows, i, w, at, z);
  }
}

void sparse_add_rows(const SparseExamples& rows, const float* d, Count width, Count low, Count high, float* g) {
  for (Count i = rows.first; i < rows.last; ++i, d += width) {
    const ValueRange part = part_of(rows, i, low, high);
    for (Count k = part.begin; k < part.end; ++k) {
      float* const to = g + static_cast<Count>(rows.columns[k]) * width;
      const Vector x = broadcast(rows.values != nullptr ? rows.values[k] : 1.0F);
      for (Count at = 0; at < width; at += kLanes) store(to + at, load(to + at) + x * load(d + at));
    }
  }
}

}  // namespace

void add_linear_sparse_pass(Loops& loops) {
  loops.linear.sparse_margins = sparse_margins;
  loops.linear.sparse_pairs = sparse_pairs;
  loops.linear.sparse_add = sparse_add;
  loops.linear.sparse_add_outer = sparse_add_outer;
  loops.linear.sparse_rows = sparse_rows;
  loops.linear.sparse_add_rows = sparse_add_rows;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
