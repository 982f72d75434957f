#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
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

void hinge_sums(const Columns& columns, const float* z, const std::int32_t* labels, HingeSums& sums) {
  float label[kMaximumLanes], largest[kMaximumLanes];
  for (Count lane = 0; lane < columns.lanes; ++lane) {
    label[lane] = z[labels[lane] * columns.stride + lane];
    largest[lane] = -__builtin_inff();
    sums.other[lane] = -1;
    sums.before[lane] = 0;
  }
  for (Count k = 0; k < columns.elements; ++k) {
#pragma omp simd
    for (Count lane = 0; lane < columns.lanes; ++lane) {
      const float score = z[k * columns.stride + lane];
      const bool is_label = k == labels[lane];
      const bool behind = score < label[lane] || (score == label[lane] && k >= labels[lane]);  // as in find_largest
      sums.before[lane] += behind ? 0 : 1;
      const bool wins = !is_label && (score > largest[lane] || score != score);  // a NaN stays
      largest[lane] = wins ? score : largest[lane];
      sums.other[lane] = wins ? static_cast<std::int32_t>(k) : sums.other[lane];
    }
  }
  for (Count lane = 0; lane < columns.lanes; ++lane) sums.margin[lane] = 1.0F + (largest[lane] - label[lane]);
}

void hinge_gradient(const Columns& columns, const std::int32_t* labels, const HingeSums& sums, float scale, float* d) {
  for (Count k = 0; k < columns.elements; ++k) {
#pragma omp simd
    for (Count lane = 0; lane < columns.lanes; ++lane) {
      const float slope = (k == sums.other[lane] ? scale : 0.0F) - (k == labels[lane] ? scale : 0.0F);
      d[k * columns.stride + lane] = lane < columns.used && sums.margin[lane] > 0.0F ? slope : 0.0F;
    }
  }
}

double sum_used(const double* lanes, Count used) {
  double sum = 0;
  for (Count lane = 0; lane < used; ++lane) sum += lanes[lane];
  return sum;
}

/// \param weights null: all are 1
double sum_used(const double* lanes, const float* weights, Count used) {
  if (weights == nullptr) return sum_used(lanes, used);
  double sum = 0;
  for (Count lane = 0; lane < used; ++lane) sum += static_cast<double>(weights[lane]) * lanes[lane];
  return sum;
}

double sigmoid(const Columns& columns, const float* z, const float* targets, const float* weights, float smoothing,
               float scale, float* d) {
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
  return sum_used(losses, weights, columns.used);
}

__attribute__((always_inline)) inline double huber_loss(double error, double delta) {
  const double size = __builtin_fabs(error);
  return size <= delta ? 0.5 * error * error : delta * (size - 0.5 * delta);
}

/// The factor of `scale` in an error's gradient.
template <ErrorLoss kLoss>
__attribute__((always_inline)) inline float slope_of(float error, float delta) {
  if constexpr (kLoss == ErrorLoss::squared) return error;
  if constexpr (kLoss == ErrorLoss::absolute) return error > 0.0F ? 1.0F : (error < 0.0F ? -1.0F : error);
  return error > delta ? delta : (error < -delta ? -delta : error);
}

template <ErrorLoss kLoss>
ErrorSums errors_of(const Columns& columns, const ErrorTerms& terms, const float* y, const float* targets, float* d) {
  const float scale = terms.scale, delta = terms.delta;
  double losses[kMaximumLanes] = {}, squared[kMaximumLanes] = {}, absolute[kMaximumLanes] = {};
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
      if (kLoss == ErrorLoss::huber) losses[lane] += huber_loss(error, static_cast<double>(delta));
      if (d != nullptr) {
        d[e * columns.stride + lane] = lane < columns.used ? scale * slope_of<kLoss>(difference, delta) : 0.0F;
      }
    }
  }
  const double* const own = kLoss == ErrorLoss::squared ? squared : kLoss == ErrorLoss::absolute ? absolute : losses;
  return {sum_used(own, terms.weights, columns.used), sum_used(squared, columns.used), sum_used(absolute, columns.used),
          sum_used(target, columns.used), sum_used(target_squared, columns.used)};
}

ErrorSums errors(const Columns& columns, const ErrorTerms& terms, const float* y, const float* targets, float* d) {
  switch (terms.loss) {
    case ErrorLoss::squared:
      return errors_of<ErrorLoss::squared>(columns, terms, y, targets, d);
    case ErrorLoss::absolute:
      return errors_of<ErrorLoss::absolute>(columns, terms, y, targets, d);
    case ErrorLoss::huber:
      return errors_of<ErrorLoss::huber>(columns, terms, y, targets, d);
  }
  return {};
}

void weigh(const Columns& columns, const float* weights, float* d) {
  for (Count e = 0; e < columns.elements; ++e) {
#pragma omp simd
    for (Count lane = 0; lane < columns.lanes; ++lane) d[e * columns.stride + lane] *= weights[lane];
  }
}

}  // namespace

void add_loss(Loops& loops) {
  loops.loss = {softmax_sums, softmax_gradient, hinge_sums, hinge_gradient, sigmoid, errors, weigh};
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
