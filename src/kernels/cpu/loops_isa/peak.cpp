// The peak speeds of the cores, with which all other speeds are compared (roofline).
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// Enough independent chains to hide the latency of two units (2 × 4 cycles), few enough for 16 registers.
constexpr int kChains = 12;

double multiply_add(Count iterations, float* sink) {
  const Vector factor = broadcast(0.999F), term = broadcast(0.001F);
  Vector sums[kChains];
  for (int chain = 0; chain < kChains; ++chain) sums[chain] = broadcast(*sink + static_cast<float>(chain));
  for (Count i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int chain = 0; chain < kChains; ++chain) sums[chain] = sums[chain] * factor + term;
  }
  for (const Vector& sum : sums) {
    for (Count lane = 0; lane < kLanes; ++lane) *sink += sum[lane];
  }
  return 2.0 * static_cast<double>(kChains * kLanes) * static_cast<double>(iterations);
}

void triad(Count count, float* a, const float* b, const float* c) {
  for (Count i = 0; i < count; ++i) a[i] = b[i] + 0.5F * c[i];
}

}  // namespace

void add_peak(Loops& loops) {
  loops.multiply_add = multiply_add;
  loops.triad = triad;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
