#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::cpu::UNISONO_ISA {
namespace {

/// The largest logit and the label's rank.
void find_largest(const Columns& columns, const float* z, const std::int32_t* labels, SoftmaxSums& sums) {
  for (Count lane = 0; lane < columns.lanes; ++lane) {
    sums.label[lane] = z[labels[lane] * columns.stride + lane];
    sums.largest[lane] = z[lane];
    sums.before[lane] = 0;
  }
  for (Count k = 0; k < columns.elements; ++k) {
#pragma omp simd
    for (Count lane = 0; lane < columns.lanes; ++lane) {
      const float logit = z[k * columns.stride + lane], label = sums.label[lane];
      sums.largest[lane] = logit > sums.largest[lane] ? logit : sums.largest[lane];
      // Written so that a NaN comes before every label.
      const bool behind = logit < label || (logit == label && k >= labels[lane]);
      sums.before[lane] += behind ? 0 : 1;
    }
  }
}

void softmax_sums(const Columns& columns, const float* z, const std::int32_t* labels, SoftmaxSums& sums,
                  float* exponentials) {
  find_largest(columns, z, labels, sums);
  for (Count lane = 0; lane < columns.lanes; ++lane) sums.exponentials[lane] = sums.logits[lane] = 0.0;
  float row[kMaximumLanes];
  for (Count k = 0; k < columns.elements; ++k) {
    float* e = exponentials != nullptr ? exponentials + k * columns.stride : row;
#pragma omp simd
    for (Count lane = 0; lane < columns.lanes; ++lane) {
      const float shifted = z[k * columns.stride + lane] - sums.largest[lane];
      e[lane] = exponential(shifted);
      sums.exponentials[lane] += static_cast<double>(e[lane]);
      sums.logits[lane] += static_cast<double>(shifted);
    }
  }
  for (Count lane = 0; lane < columns.lanes; ++lane) sums.label[lane] -= sums.largest[lane];
}

void softmax_gradient(const Columns& columns, const std::int32_t* labels, const SoftmaxSums& sums, float smoothing,
                      float scale, float* d) {
  const float spread = scale * smoothing / static_cast<float>(columns.elements), peak = scale * (1.0F - smoothing);
  float share[kMaximumLanes];
  for (Count lane = 0; lane < columns.lanes; ++lane) share[lane] = scale / static_cast<float>(sums.exponentials[lane]);
  for (Count k = 0; k < columns.elements; ++k) {
#pragma omp simd
    for (Count lane = 0; lane < columns.lanes; ++lane) {
      const float target = spread + (k == labels[lane] ? peak : 0.0F);
      const float v = share[lane] * d[k * columns.stride + lane] - target;
      d[k * columns.stride + lane] = lane < columns.used ? v : 0.0F;
    }
  }
}

double sum_used(const double* lanes, Count used) {
  double sum = 0;
  for (Count lane = 0; lane < used; ++lane) sum += lanes[lane];
  return sum;
}

double sigmoid(const Columns& columns, const float* z, const float* targets, float smoothing, float scale, float* d) {
  double losses[kMaximumLanes] = {};
  for (Count e = 0; e < columns.elements; ++e) {
    const float* row = z + e * columns.stride;
#pragma omp simd
    for (Count lane = 0; lane < columns.lanes; ++lane) {
      const float target = targets[e * columns.lanes + lane] * (1.0F - smoothing) + 0.5F * smoothing;
      const float far = (row[lane] < 0.0F ? 0.0F : row[lane]) - target * row[lane];  // before the tail, which is small
      losses[lane] += static_cast<double>(far + softplus_tail(row[lane]));
      if (d != nullptr) {
        d[e * columns.stride + lane] = lane < columns.used ? scale * (logistic(row[lane]) - target) : 0.0F;
      }
    }
  }
  return sum_used(losses, columns.used);
}

ErrorSums errors(const Columns& columns, const float* y, const float* targets, float scale, float* d) {
  double squared[kMaximumLanes] = {}, absolute[kMaximumLanes] = {};
  double target[kMaximumLanes] = {}, target_squared[kMaximumLanes] = {};
  for (Count e = 0; e < columns.elements; ++e) {
    const float* row = y + e * columns.stride;
#pragma omp simd
    for (Count lane = 0; lane < columns.lanes; ++lane) {
      const float t = targets[e * columns.lanes + lane], difference = row[lane] - t;
      const double error = static_cast<double>(difference), wide = static_cast<double>(t);
      squared[lane] += error * error;
      absolute[lane] += __builtin_fabs(error);
      target[lane] += wide;
      target_squared[lane] += wide * wide;
      if (d != nullptr) d[e * columns.stride + lane] = lane < columns.used ? scale * difference : 0.0F;
    }
  }
  return {sum_used(squared, columns.used), sum_used(absolute, columns.used), sum_used(target, columns.used),
          sum_used(target_squared, columns.used)};
}

}  // namespace

void add_loss(Loops& loops) { loops.loss = {softmax_sums, softmax_gradient, sigmoid, errors}; }

}  // namespace unisono::cpu::UNISONO_ISA
