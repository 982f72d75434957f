// Rows of ones as bit columns: a mask selects the rows that a weight is added to, and the derivatives that are added to
// a feature, 16 at a time. On a9a (123 features, 14 values a row) 64 rows take 123 masks of each loop, some 0.12 µs;
// gathering and scattering single values takes more than twice as long.
#include "cpu/linear_loops.hpp"
#include "cpu/loops_isa/fold.hpp"
#include "cpu/loops_isa/table.hpp"

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

}  // namespace unisono::kernels::cpu::UNISONO_ISA
