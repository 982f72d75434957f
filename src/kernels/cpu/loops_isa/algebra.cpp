#include "cpu/loops_isa/square_sum.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

void squared_norm(const float* x, Count n, double* sum) {
  SquareSum squares;
  squares.add(x, n);
  squares.store(sum);
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

}  // namespace unisono::kernels::cpu::UNISONO_ISA
