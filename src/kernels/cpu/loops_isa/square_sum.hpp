#pragma once

#include "cpu/loops_isa/vector.hpp"

// Σ x² to within 4 roundings of a double, however many numbers there are: squares of floats are exact in double, the
// squares of four registers are added up, and the rounding error of adding these to the total is kept (compensated
// summation).
//   Knuth, TAOCP 2, 4.2.2, theorem B (the error of a sum); Ogita, Rump & Oishi, SIAM J. Sci. Comput. 26(6), 2005.

namespace unisono::kernels::cpu::UNISONO_ISA {

/// A compensated sum: `rest` adds up the rounding errors of `sum`; the value is sum + rest.
template <typename T>
struct SplitSum {
  T sum{}, rest{};

  __attribute__((always_inline)) void add(T value) {
    const T before = sum;
    sum = before + value;
    const T added = sum - before;
    rest += (before - (sum - added)) + (value - added);
  }
  __attribute__((always_inline)) void add(const SplitSum& other) {
    add(other.sum);
    rest += other.rest;
  }
};

/// Σ x² of vectors that are added one after the other. It computes two sums at once: two streams from memory are faster
/// than one, and do not wait for each other.
class SquareSum {
 public:
  __attribute__((always_inline)) void add(const float* x, Count n) {
    constexpr Count kTogether = 4, kStep = kTogether * kHalf;
    const Count part = n / kParts / kStep * kStep;
    SplitSum<Doubles> sums[kParts] = {sums_[0], sums_[1]};
    for (Count i = 0; i < part; i += kStep) {
#pragma GCC unroll 2
      for (Count j = 0; j < kParts; ++j) {
        const float* const at = x + j * part + i;
        Doubles squares{};
#pragma GCC unroll 4
        for (Count k = 0; k < kTogether; ++k) {
          const Doubles v = load_doubles(at + k * kHalf);
          squares += v * v;
        }
        sums[j].add(squares);
      }
    }
    for (Count i = kParts * part; i < n; i += kHalf) {
      float rest[kHalf] = {};
      __builtin_memcpy(rest, x + i, sizeof(float) * static_cast<std::size_t>(n - i < kHalf ? n - i : kHalf));
      const Doubles v = load_doubles(rest);
      sums[0].add(v * v);
    }
    for (Count j = 0; j < kParts; ++j) sums_[j] = sums[j];
  }

  /// sum[0] + sum[1] = Σ x² of all that was added.
  __attribute__((always_inline)) void store(double* sum) const {
    SplitSum<Doubles> both = sums_[0];
    both.add(sums_[1]);
    SplitSum<double> all;
    for (Count lane = 0; lane < kHalf; ++lane) all.add({both.sum[lane], both.rest[lane]});
    sum[0] = all.sum;
    sum[1] = all.rest;
  }

 private:
  static constexpr Count kParts = 2, kHalf = kLanes / 2;
  SplitSum<Doubles> sums_[kParts];
};

}  // namespace unisono::kernels::cpu::UNISONO_ISA
