#include "cpu/in_place_loops.hpp"
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

// Rows of ones as bit columns: a mask selects the rows that a weight is added to, and the derivatives that are added to
// a feature, 16 at a time. On a9a (123 features, 14 values a row) 64 rows take 123 masks of each loop, some 0.12 µs;
// gathering and scattering single values takes more than twice as long.
namespace unisono::kernels::cpu::UNISONO_ISA {

#if defined(__AVX512F__)
namespace {

constexpr Count kQuarters = kMaskRows / kLanes;

__attribute__((always_inline)) inline __mmask16 quarter(std::uint64_t mask, Count q) {
  return static_cast<__mmask16>(mask >> (q * kLanes));
}

/// Which of the 64 rows from `begin` on are in [first, last).
inline std::uint64_t rows_within(const BitExamples& rows, Count begin) {
  std::uint64_t all = ~std::uint64_t{0};
  if (rows.first > begin) all &= ~std::uint64_t{0} << (rows.first - begin);
  if (rows.last < begin + kMaskRows) all &= ~std::uint64_t{0} >> (begin + kMaskRows - rows.last);
  return all;
}

/// Calls visit(masks, which rows, offset of the first of the 64 rows from rows.first) for each 64 rows.
template <typename Visit>
__attribute__((always_inline)) inline void for_each_block(const BitExamples& rows, const Visit& visit) {
  for (Count block = rows.first / kMaskRows; block * kMaskRows < rows.last; ++block) {
    const Count begin = block * kMaskRows;
    visit(rows.masks + block * rows.width, rows_within(rows, begin), begin - rows.first);
  }
}

void bit_margins(const BitExamples& rows, const MarginVector& w, float* z) {
  for_each_block(rows, [&](const std::uint64_t* masks, std::uint64_t within, Count at) {
    Vector sums[kQuarters];
    for (Vector& sum : sums) sum = broadcast(w.bias);
    for (Count j = 0; j < rows.width; ++j) {
      const Vector weight = broadcast(w.weights[j]);
#pragma GCC unroll 4
      for (Count q = 0; q < kQuarters; ++q) {
        sums[q] = _mm512_mask_add_ps(sums[q], quarter(masks[j], q), sums[q], weight);
      }
    }
    for (Count q = 0; q < kQuarters; ++q) {
      _mm512_mask_storeu_ps(z + at + q * kLanes, quarter(within, q), sums[q]);
    }
  });
}

void bit_add(const BitExamples& rows, const float* d, float* lanes) {
  for_each_block(rows, [&](const std::uint64_t* masks, std::uint64_t within, Count at) {
    Vector slopes[kQuarters];
    for (Count q = 0; q < kQuarters; ++q) {
      slopes[q] = _mm512_maskz_loadu_ps(quarter(within, q), d + at + q * kLanes);
    }
    for (Count j = 0; j < rows.width; ++j) {
      Vector even = load(lanes + j * kLanes), odd = _mm512_maskz_mov_ps(quarter(masks[j], 1), slopes[1]);
      even = _mm512_mask_add_ps(even, quarter(masks[j], 0), even, slopes[0]);
      odd = _mm512_mask_add_ps(odd, quarter(masks[j], 3), odd, slopes[3]);
      even = _mm512_mask_add_ps(even, quarter(masks[j], 2), even, slopes[2]);
      store(lanes + j * kLanes, even + odd);
    }
  });
}

void add_up_lanes(const float* lanes, Count count, float* sums) {
  for (Count j = 0; j < count; j += kLanes, lanes += kLanes * kLanes) {
    Vector of_features[kLanes], total[1];
#pragma GCC unroll 16
    for (Count i = 0; i < kLanes; ++i) of_features[i] = load(lanes + i * kLanes);
    add_lanes<kLanes>(of_features, total);
    store(sums + j, total[0]);
  }
}

}  // namespace

void add_linear_bits(Loops& loops) {
  loops.linear.bit_margins = bit_margins;
  loops.linear.bit_add = bit_add;
  loops.linear.add_up_lanes = add_up_lanes;
}
#else
void add_linear_bits(Loops&) {}  // without masks, plain loads and scattered additions are not slower
#endif

// Linear models in mini-batches on sparse rows all of whose values are 1, of few features: a row is a mask of bits, and
// all weights are in registers. A margin adds a row's weights by masked additions, a step subtracts from them; no index
// is read, nothing is scattered. For each row of 8 · 16 features 8 additions, 8 multiply-subtractions, 3 operations of
// the sum over lanes, and 32 bytes.

#if defined(__AVX512F__)
namespace {

static_assert(kMostBitFeatures == 8 * kLanes);

/// The weights of all features, or what they keep in each step.
template <int kVectors>
struct Registers {
  Vector of[kVectors];

  void read(const float* from, Count features) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const Count left = features - v * kLanes;
      of[v] = load_first(from + v * kLanes, left < 0 ? 0 : left < kLanes ? left : kLanes);
    }
  }
  void write(float* to, Count features) const {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const Count left = features - v * kLanes;
      store_first(to + v * kLanes, of[v], left < 0 ? 0 : left < kLanes ? left : kLanes);
    }
  }
};

__attribute__((always_inline)) static inline __mmask16 mask_of(const RowBits& row, int vector) {
  return _load_mask16(const_cast<__mmask16*>(&row.words[vector]));
}

/// Each lane's share of the row's margin.
template <int kVectors>
__attribute__((always_inline)) static inline Vector shares_of(const Registers<kVectors>& w, const RowBits& row) {
  Vector even = _mm512_maskz_mov_ps(mask_of(row, 0), w.of[0]), odd = _mm512_maskz_mov_ps(mask_of(row, 1), w.of[1]);
#pragma GCC unroll 8
  for (int v = 2; v < kVectors; v += 2) {
    even = _mm512_mask_add_ps(even, mask_of(row, v), even, w.of[v]);
    odd = _mm512_mask_add_ps(odd, mask_of(row, v + 1), odd, w.of[v + 1]);
  }
  return even + odd;
}

/// The margins of sixteen rows.
template <int kVectors>
__attribute__((always_inline)) static inline Vector lane_sums(const Registers<kVectors>& w, const RowBits* rows) {
  Vector sums[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) sums[i] = shares_of(w, rows[i]);
  fold<kLanes / 2>(sums);
  return sums[0];
}

template <int kVectors>
void margins_of(const Registers<kVectors>& w, const RowBits* rows, Count count, float bias, float* z) {
  Count i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store(z + i, lane_sums(w, rows + i) + broadcast(bias));
  }
  if (i == count) return;
  RowBits rest[kLanes] = {};
  for (Count k = i; k < count; ++k) rest[k - i] = rows[k];
  store_first(z + i, lane_sums(w, rest) + broadcast(bias), count - i);
}

template <int kVectors>
void steps(Registers<kVectors>& w, const Registers<kVectors>& keep, const RowBits* rows, const float* moves,
           Count count) {
  for (Count i = 0; i < count; ++i) {
    const Vector move = broadcast(moves[i]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      w.of[v] = _mm512_mask_fmsub_ps(w.of[v], mask_of(rows[i], v), keep.of[v], move);
    }
  }
}

float sum_of(const float* values, Count count) {
  Vector sum{};
  for_each_vector(count, [&](Count i, auto lanes) { sum += lanes.get(values + i); });
  return add_all_lanes(sum)[0];
}

/// Fills in the bits of rows that were not visited before.
void prepare(const SparseExamples& rows, RowBits* bits) {
  for (Count i = rows.first; i < rows.last; ++i) {
    const __m128i known = _mm_load_si128(reinterpret_cast<const __m128i*>(bits[i].words));
    if (_mm_testz_si128(known, known) == 0) continue;
    for (std::uint64_t k = rows.offsets[i]; k < rows.offsets[i + 1]; ++k) {
      const std::uint32_t column = rows.columns[k];
      std::uint16_t& word = bits[i].words[column / 16];
      word = static_cast<std::uint16_t>(word | 1U << column % 16);
    }
  }
}

template <MarginLoss kLoss, int kVectors>
void run(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  const LinearStep& step = work.step;
  float moves[kMostMiniBatch];
  prepare(rows, step.row_bits);
  Registers<kVectors> w, keep;
  if (step.l2 == 0.0F) {
    for (Vector& one : keep.of) one = broadcast(1.0F);
  } else {
    const Vector l2 = broadcast(Shrinking(step).l2), one = broadcast(1.0F);
    keep.read(step.spread, rows.width);
    for (Vector& kept : keep.of) {
      kept = one - kept * l2;
      kept = kept > 0.0F ? kept : Vector{};
    }
  }
  w.read(work.weights.weights, rows.width);
  float bias = work.weights.bias != nullptr ? *work.weights.bias : 0.0F;
  const auto train = [&](Count first, Count count, float* z) __attribute__((always_inline)) {
    margins_of(w, step.row_bits + first, count, bias, z);
    const float* const targets = rows.targets + first;
#pragma omp simd
    for (Count i = 0; i < count; ++i) moves[i] = step.rate * derivative<kLoss>(z[i], targets[i]);
    for (Count i = 0; step.weights != nullptr && i < count; ++i) moves[i] *= step.weights[first + i];
    steps(w, keep, step.row_bits + first, moves, count);
    if (work.weights.bias != nullptr) bias -= sum_of(moves, count) / static_cast<float>(count);
  };
  for_each_mini_batch(rows.first, rows.last, step.mini_batch, train,
                      [&](Count first, Count count, const float* margins) {
                        add_margins<kLoss>(margins, rows.targets + first, weights_from(step, first), count, sums);
                      });
  w.write(work.weights.weights, rows.width);
  if (work.weights.bias != nullptr) *work.weights.bias = bias;
}

void linear_bit_rows(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  if (rows.first >= rows.last) return;
  with_loss(work.loss, [&]<MarginLoss kLoss>() {
    (rows.width <= 2 * kLanes   ? run<kLoss, 2>
     : rows.width <= 4 * kLanes ? run<kLoss, 4>
                                : run<kLoss, 8>)(rows, work, sums);
  });
}

}  // namespace

void add_linear_bit_rows(Loops& loops) { loops.in_place.linear_bit_rows = linear_bit_rows; }
#else
void add_linear_bit_rows(Loops&) {}
#endif

}  // namespace unisono::kernels::cpu::UNISONO_ISA
