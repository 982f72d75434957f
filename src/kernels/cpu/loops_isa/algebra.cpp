#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// Σ of products. Four parts at once, each summed by itself: so many streams from memory are 1.7 times as fast as one.
/// The order depends on n alone. \param product of the kLanes / 2 pairs from i on. \param last of the pair i
template <typename Product, typename Last>
double sum_of_products(Count n, const Product& product, const Last& last) {
  constexpr Count kParts = 4, kLength = kLanes / 2;
  const Count part = n / kParts / kLength * kLength;
  Doubles sums[kParts] = {};
  for (Count i = 0; i < part; i += kLength) {
    for (Count j = 0; j < kParts; ++j) sums[j] += product(j * part + i);
  }
  const Doubles sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double result = 0;
  for (Count i = 0; i < kLength; ++i) result += sum[i];
  for (Count i = kParts * part; i < n; ++i) result += last(i);
  return result;
}

double squared_norm(const float* x, Count n) {
  const auto square = [x](Count i) {
    const Doubles v = load_doubles(x + i);
    return v * v;
  };
  return sum_of_products(n, square, [x](Count i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
}

double dot(const float* x, const float* y, Count n) {
  const auto product = [x, y](Count i) { return load_doubles(x + i) * load_doubles(y + i); };
  return sum_of_products(n, product, [x, y](Count i) { return static_cast<double>(x[i]) * static_cast<double>(y[i]); });
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

void add_algebra(Loops& loops) { loops.algebra = {squared_norm, dot, axpby}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
