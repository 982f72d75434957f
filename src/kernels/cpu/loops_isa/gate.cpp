#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/table.hpp"

// y = silu(x) v, silu(x) = x σ(x): dv = dy x σ, dx = dy v (σ + x σ (1 − σ)).

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

void forward(const float* x, const float* v, float* y, Count n) {
#pragma omp simd
  for (Count i = 0; i < n; ++i) y[i] = x[i] * logistic(x[i]) * v[i];
}

void backward(const float* x, const float* v, const float* dy, float* dx, float* dv, Count n) {
#pragma omp simd
  for (Count i = 0; i < n; ++i) {
    const float s = logistic(x[i]), silu = x[i] * s;
    dx[i] = dy[i] * v[i] * (s + silu * (1.0F - s));
    dv[i] = dy[i] * silu;
  }
}

}  // namespace

void add_gate(Loops& loops) { loops.gate = {forward, backward}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
