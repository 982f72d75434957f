#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"

// Update rules: one pass over memory each. In all of them s is gradient_scale and λ decay.

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

// g' = s g + λ θ;  θ ← θ − rate g'                                           bytes per element: 12
void sgd(const RangeStep<SgdStep>& step, const float* g, float* theta, Count n) {
  const float rate = step.rate, decay = step.decay, scale = step.gradient_scale;
#pragma omp simd
  for (Count i = 0; i < n; ++i) theta[i] -= rate * (scale * g[i] + decay * theta[i]);
}

// g' = s g + λ θ;  v ← μ v + g';  θ ← θ − rate v, Nesterov: θ ← θ − rate (g' + μ v)                        20
//   Polyak 1964; Nesterov 1983 in the form of Sutskever et al., ICML 2013, with PyTorch's convention that v holds no
//   rate.
template <bool kNesterov>
void momentum_of(const RangeStep<SgdStep>& step, const float* g, float* theta, float* velocity, Count n) {
  const float rate = step.rate, mu = step.momentum, decay = step.decay, scale = step.gradient_scale;
#pragma omp simd
  for (Count i = 0; i < n; ++i) {
    const float gradient = scale * g[i] + decay * theta[i];
    const float v = mu * velocity[i] + gradient;
    velocity[i] = v;
    theta[i] -= rate * (kNesterov ? gradient + mu * v : v);
  }
}

void momentum(const RangeStep<SgdStep>& step, const float* g, float* theta, float* velocity, Count n) {
  (step.nesterov ? momentum_of<true> : momentum_of<false>)(step, g, theta, velocity, n);
}

// g' = s g + λ θ;  a ← a + g'²;  θ ← θ − rate g' / (√a + ε)                                                20
//   Duchi, Hazan & Singer, JMLR 12, 2011.
void adagrad(const RangeStep<AdagradStep>& step, const float* g, float* theta, float* accumulator, Count n) {
  const float rate = step.rate, decay = step.decay, epsilon = step.epsilon, scale = step.gradient_scale;
#pragma omp simd
  for (Count i = 0; i < n; ++i) {
    const float gradient = scale * g[i] + decay * theta[i];
    const float a = accumulator[i] + gradient * gradient;
    accumulator[i] = a;
    theta[i] -= rate * gradient / (__builtin_sqrtf(a) + epsilon);
  }
}

// g' = s g + λ θ;  m ← ρ m + (1 − ρ) g'²;  θ ← θ − rate g' / (√m + ε)                                      20
//   Hinton, Neural networks for machine learning, lecture 6e, 2012.
void rmsprop(const RangeStep<RmspropStep>& step, const float* g, float* theta, float* mean_square, Count n) {
  const float rate = step.rate, decay = step.decay, epsilon = step.epsilon, scale = step.gradient_scale;
  const float rho = step.smoothing, fresh = 1.0F - rho;
#pragma omp simd
  for (Count i = 0; i < n; ++i) {
    const float gradient = scale * g[i] + decay * theta[i];
    const float m = rho * mean_square[i] + fresh * (gradient * gradient);
    mean_square[i] = m;
    theta[i] -= rate * gradient / (__builtin_sqrtf(m) + epsilon);
  }
}

/// Adam's constants; λ belongs either to the gradient or to the direction.
struct Adam {
  float beta1, beta2, fresh1, fresh2, correction1, correction2, epsilon, scale, gradient_decay, direction_decay;
  Adam(const RangeStep<AdamStep>& step, bool decoupled)
      : beta1(step.beta1),
        beta2(step.beta2),
        fresh1(1.0F - step.beta1),
        fresh2(1.0F - step.beta2),
        correction1(step.correction1),
        correction2(step.correction2),
        epsilon(step.epsilon),
        scale(step.gradient_scale),
        gradient_decay(decoupled ? 0.0F : step.decay),
        direction_decay(decoupled ? step.decay : 0.0F) {}

  float first(float m, float gradient) const { return beta1 * m + fresh1 * gradient; }
  float second(float v, float gradient) const { return beta2 * v + fresh2 * (gradient * gradient); }
  float direction(float m, float v, float theta) const {
    return correction1 * m / (__builtin_sqrtf(correction2 * v) + epsilon) + direction_decay * theta;
  }
};

// g' = s g + λ θ;  m ← β₁ m + (1 − β₁) g';  v ← β₂ v + (1 − β₂) g'²;                                        28
// θ ← θ − rate (m c₁ / (√(v c₂) + ε)) with cᵢ = 1 / (1 − βᵢᵗ)
//   Kingma & Ba, ICLR 2015. Decoupled, λ θ is added to the direction instead: AdamW, Loshchilov & Hutter, ICLR 2019.
void adam(const RangeStep<AdamStep>& step, const float* g, float* theta, float* first, float* second, Count n) {
  const Adam rule(step, step.decoupled);
#pragma omp simd
  for (Count i = 0; i < n; ++i) {
    const float gradient = rule.scale * g[i] + rule.gradient_decay * theta[i];
    const float m = rule.first(first[i], gradient), v = rule.second(second[i], gradient);
    first[i] = m;
    second[i] = v;
    theta[i] -= step.rate * rule.direction(m, v, theta[i]);
  }
}

// LAMB's direction is AdamW's:  r = m c₁ / (√(v c₂) + ε) + λ θ;  θ ← θ − ratio · rate · r, in two passes, since the
// ratio of a block needs ‖θ‖ and ‖r‖.                                                                 24 + 16
//   You et al., ICLR 2020.
void lamb_moments(const RangeStep<AdamStep>& step, const float* g, const float* theta, float* first, float* second,
                  Count n, double* sum) {
  constexpr Count kPiece = 256;  // whose directions stay in the first cache
  const Adam rule(step, true);
  alignas(64) float directions[kPiece];
  SquareSum squares;
  for (Count start = 0; start < n; start += kPiece) {
    const Count length = n - start < kPiece ? n - start : kPiece;
#pragma omp simd
    for (Count i = 0; i < length; ++i) {
      const float gradient = rule.scale * g[start + i];
      const float m = rule.first(first[start + i], gradient), v = rule.second(second[start + i], gradient);
      first[start + i] = m;
      second[start + i] = v;
      directions[i] = rule.direction(m, v, theta[start + i]);
    }
    squares.add(directions, length);
  }
  squares.store(sum);
}

// Rounds as lamb_moments does: only the last two operations of a direction can be fused to one, and they are in both.
void lamb_directions(const RangeStep<AdamStep>& step, const float* theta, const float* first, const float* second,
                     float* directions, Count n) {
  const Adam rule(step, true);
#pragma omp simd
  for (Count i = 0; i < n; ++i) directions[i] = rule.direction(first[i], second[i], theta[i]);
}

void lamb_apply(const RangeStep<AdamStep>& step, float ratio, float* theta, const float* first, const float* second,
                Count n) {
  const Adam rule(step, true);
  const float rate = ratio * step.rate;
#pragma omp simd
  for (Count i = 0; i < n; ++i) theta[i] -= rate * rule.direction(first[i], second[i], theta[i]);
}

}  // namespace

void add_updates(Loops& loops) {
  loops.updates = {sgd, momentum, adagrad, rmsprop, adam, lamb_moments, lamb_directions, lamb_apply};
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
