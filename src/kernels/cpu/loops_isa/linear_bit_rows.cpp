// Linear models in mini-batches on sparse rows all of whose values are 1, of few features: a row is a mask of bits, and
// all weights are in registers. A margin adds a row's weights by masked additions, a step subtracts from them; no index
// is read, nothing is scattered. For each row of 8 · 16 features 8 additions, 8 multiply-subtractions, 3 operations of
// the sum over lanes, and 32 bytes.
#include "cpu/in_place_loops.hpp"
#include "cpu/loops_isa/fold.hpp"
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/shrink.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {

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
