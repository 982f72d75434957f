// Losses and derivatives of a block of margins. Losses are added up in double. Σ ln(1 + e^−|z|) is the logarithm of a
// product, which costs a multiplication for each example; at most kMostFactors factors of at most 2 do not overflow.
#include "cpu/in_place_loops.hpp"
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kMostFactors = 512;  ///< of at most 2 each, whose product is a double

/// Adds the logarithm of the products to the loss.
void take_logarithm(PassSums& sums) {
  double product = 1;
  for (Count lane = 0; lane < kLanes; ++lane) product *= sums.product[lane];
  if (sums.factors > 0) sums.loss[0] += __builtin_log(product);
  for (Count lane = 0; lane < kLanes; ++lane) sums.product[lane] = 1;
  sums.factors = 0;
}

/// Makes room for a block's factors.
void prepare(PassSums& sums, Count count) {
  if (sums.factors == 0 || sums.factors + count > kMostFactors) take_logarithm(sums);
  sums.factors += count;
}

void settle(PassSums& sums) {
  take_logarithm(sums);
  for (double* lanes : {sums.loss, sums.slope, sums.squared_error, sums.absolute_error}) {
    for (Count lane = 1; lane < kLanes; ++lane) lanes[0] += lanes[lane];
    for (Count lane = 1; lane < kLanes; ++lane) lanes[lane] = 0;
  }
  for (std::int32_t& hits : sums.hits) {
    sums.correct += hits;
    hits = 0;
  }
}

/// ln(1 + u) for 0 ≤ u ≤ 1, to 1e-13: 2 artanh z with z = u / (2 + u) ≤ 1/3.
__attribute__((always_inline)) inline double precise_log_one_plus(double u) {
  const double z = u / (2.0 + u), square = z * z;
  double sum = 1.0 / 25.0;
#pragma GCC unroll 12
  for (int n = 23; n > 0; n -= 2) sum = sum * square + 1.0 / n;
  return 2.0 * z * sum;
}

/// One example of one margin: returns the derivative, and adds the example's figures to a lane.
template <MarginLoss kLoss, bool kWeighted>
__attribute__((always_inline)) inline float add_example(float z, float target, float weight, PassSums& lanes,
                                                        Count lane) {
  if constexpr (kLoss == MarginLoss::squared) {
    const double error = static_cast<double>(z) - static_cast<double>(target), square = error * error;
    lanes.loss[lane] += kWeighted ? static_cast<double>(weight) * (0.5 * square) : 0.5 * square;
    lanes.squared_error[lane] += square;
    lanes.absolute_error[lane] += __builtin_fabs(error);
    return static_cast<float>(error);
  }
  const float sign = target > 0.0F ? -1.0F : 1.0F;  // −y
  const float wrong = sign * z;
  lanes.hits[lane] += (z > 0.0F) == (target > 0.0F) ? 1 : 0;
  if constexpr (kLoss == MarginLoss::logistic) {
    const float u = exponential(-__builtin_fabsf(z));
    const float above = wrong < 0.0F ? 0.0F : wrong;  // of NaN: NaN
    if (kWeighted) {
      lanes.loss[lane] +=
          static_cast<double>(weight) * (static_cast<double>(above) + precise_log_one_plus(static_cast<double>(u)));
    } else {
      lanes.loss[lane] += static_cast<double>(above);
      lanes.product[lane] *= 1.0 + static_cast<double>(u);
    }
    return sign * ((wrong < 0.0F ? u : 1.0F) / (1.0F + u));
  }
  const double beyond = 1.0 + static_cast<double>(wrong), slack = beyond < 0.0 ? 0.0 : beyond;
  const double loss = kLoss == MarginLoss::hinge ? slack : slack * slack;
  lanes.loss[lane] += kWeighted ? static_cast<double>(weight) * loss : loss;
  if (kLoss == MarginLoss::hinge) return beyond > 0.0 ? sign : 0.0F;
  return 2.0F * sign * static_cast<float>(slack);
}

template <MarginLoss kLoss, bool kWeighted>
void derivatives_of(const BlockTargets& block, const float* z, float* d, PassSums& sums) {
  prepare(sums, block.count);
  PassSums lanes = sums;  // which nothing else points at
  for (Count start = 0; start < block.count; start += kLanes) {
    const Count count = block.count - start < kLanes ? block.count - start : kLanes;
#pragma omp simd
    for (Count lane = 0; lane < count; ++lane) {
      const Count i = start + lane;
      const float weight = kWeighted ? block.weights[i] : 1.0F;
      const float slope = add_example<kLoss, kWeighted>(z[i], block.targets[i], weight, lanes, lane);
      const float scaled = kWeighted ? (block.scale * weight) * slope : block.scale * slope;
      d[i] = scaled;
      lanes.slope[lane] += static_cast<double>(scaled);
    }
  }
  sums = lanes;
}

void derivatives(MarginLoss loss, const BlockTargets& block, const float* z, float* d, PassSums& sums) {
  with_loss(loss, [&]<MarginLoss kLoss>() {
    with_flag(block.weights != nullptr, [&]<bool kWeighted>() { derivatives_of<kLoss, kWeighted>(block, z, d, sums); });
  });
}

/// ℓ''(z)
template <MarginLoss kLoss>
__attribute__((always_inline)) inline float curvature(float z, float target) {
  if constexpr (kLoss == MarginLoss::squared) return 1.0F;
  if constexpr (kLoss == MarginLoss::hinge) return 0.0F;
  if constexpr (kLoss == MarginLoss::squared_hinge) return (target > 0.0F ? z : -z) < 1.0F ? 2.0F : 0.0F;
  const float u = exponential(-__builtin_fabsf(z)), share = 1.0F / (1.0F + u);
  return (u * share) * share;
}

template <MarginLoss kLoss, bool kWeighted>
void bends_of(const BlockTargets& block, const float* z, float* u, PassSums& sums) {
  double slope[kLanes] = {};
  for (Count start = 0; start < block.count; start += kLanes) {
    const Count count = block.count - start < kLanes ? block.count - start : kLanes;
#pragma omp simd
    for (Count lane = 0; lane < count; ++lane) {
      const Count i = start + lane;
      const float factor = kWeighted ? block.scale * block.weights[i] : block.scale;
      const float bent = (factor * curvature<kLoss>(z[i], block.targets[i])) * u[i];
      u[i] = bent;
      slope[lane] += static_cast<double>(bent);
    }
  }
  for (Count lane = 0; lane < kLanes; ++lane) sums.slope[lane] += slope[lane];
}

void bends(MarginLoss loss, const BlockTargets& block, const float* z, float* u, PassSums& sums) {
  with_loss(loss, [&]<MarginLoss kLoss>() {
    with_flag(block.weights != nullptr, [&]<bool kWeighted>() { bends_of<kLoss, kWeighted>(block, z, u, sums); });
  });
}

/// z ← exp(z − largest) in the first K columns, 0 behind them.
struct Exponentials {
  double sum;     ///< of them
  float largest;  ///< of the margins before
  float reciprocal;
};
__attribute__((always_inline)) inline Exponentials exponentiate(float* z, Count classes, Count width) {
  float largest = z[0];
  for (Count k = 1; k < classes; ++k) largest = z[k] > largest ? z[k] : largest;
#pragma omp simd
  for (Count k = 0; k < width; ++k) z[k] = k < classes ? exponential(z[k] - largest) : 0.0F;
  double sum = 0;
  for (Count k = 0; k < width; k += kLanes) sum += total(load(z + k));
  return {sum, largest, static_cast<float>(1.0 / sum)};
}

void softmax_derivatives(Count classes, Count width, const BlockTargets& block, float* z, PassSums& sums) {
  double product = 1;
  for (Count i = 0; i < block.count; ++i, z += width) {
    const auto label = static_cast<Count>(block.targets[i]);
    const double weight = block.weights != nullptr ? static_cast<double>(block.weights[i]) : 1.0;
    const float wanted = z[label];
    std::int32_t before = 0;  // of equals the first counts, and a NaN is larger than all
    for (Count k = 0; k < classes; ++k) before += z[k] < wanted || (z[k] == wanted && k >= label) ? 0 : 1;
    const Exponentials exponentials = exponentiate(z, classes, width);
    const double above = static_cast<double>(exponentials.largest) - static_cast<double>(wanted);
    sums.correct += before == 0 ? 1 : 0;
    sums.loss[0] += weight * above;
    if (block.weights != nullptr) {
      sums.loss[0] += weight * __builtin_log(exponentials.sum);
    } else if (product *= exponentials.sum; !(product < 0x1p900)) {
      sums.loss[0] += __builtin_log(product);
      product = 1;
    }
    const float scale = static_cast<float>(static_cast<double>(block.scale) * weight);
    const Vector share = broadcast(scale * exponentials.reciprocal);
    for (Count k = 0; k < width; k += kLanes) store(z + k, share * load(z + k));
    z[label] -= scale;
  }
  sums.loss[0] += __builtin_log(product);
}

void softmax_bends(Count classes, Count width, const BlockTargets& block, float* z, float* u) {
  for (Count i = 0; i < block.count; ++i, z += width, u += width) {
    const Exponentials exponentials = exponentiate(z, classes, width);
    Vector products{};
    for (Count k = 0; k < width; k += kLanes) products += load(z + k) * load(u + k);
    const Vector mean = broadcast(static_cast<float>(total(products)) * exponentials.reciprocal);
    const float factor = block.weights != nullptr ? block.scale * block.weights[i] : block.scale;
    const Vector share = broadcast(factor * exponentials.reciprocal);
    for (Count k = 0; k < width; k += kLanes) store(u + k, share * load(z + k) * (load(u + k) - mean));
  }
}

}  // namespace

void add_linear_losses(Loops& loops) {
  loops.linear.settle = settle;
  loops.linear.derivatives = derivatives;
  loops.linear.bends = bends;
  loops.linear.softmax_derivatives = softmax_derivatives;
  loops.linear.softmax_bends = softmax_bends;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
