#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::cpu::UNISONO_ISA {
namespace {

/// Four vectors of doubles at once, each summed by itself, so that the order depends on n alone.
double squared_norm(const float* x, Count n) {
  Doubles sums[4] = {};
  constexpr Count kLength = kLanes / 2, kStep = 4 * kLength;
  Count i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (int j = 0; j < 4; ++j) {
      const Doubles v = load_doubles(x + i + j * kLength);
      sums[j] += v * v;
    }
  }
  const Doubles sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double result = 0;
  for (Count j = 0; j < kLength; ++j) result += sum[j];
  for (; i < n; ++i) result += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return result;
}

void axpby(float a, const float* x, float b, float* y, Count n) {
  if (b == 0.0F) {
#pragma omp simd
    for (Count i = 0; i < n; ++i) y[i] = a * x[i];
  } else {
#pragma omp simd
    for (Count i = 0; i < n; ++i) y[i] = a * x[i] + b * y[i];
  }
}

}  // namespace

void add_algebra(Loops& loops) { loops.algebra = {squared_norm, axpby}; }

}  // namespace unisono::cpu::UNISONO_ISA
