// The formulas and papers are in loops_isa/updates.cpp.
#include <cassert>
#include <cmath>
#include <numeric>

#include "cpu/cpu_backend.hpp"
#include "cpu/update_ranges.hpp"

namespace unisono::kernels::cpu {
namespace {

/// By how much LARS's rate of a range differs from the others'.
double lars_ratio(const LarsStep& step, double decay, double theta_norm, double g_norm) {
  if (theta_norm == 0 || g_norm == 0) return 1;
  return step.trust * theta_norm / (g_norm + decay * theta_norm);
}

}  // namespace

/// SGD's loop, with or without momentum, on a chunk.
void CpuBackend::sgd_chunk(const RangeStep<SgdStep>& step, Index first, Index length, View g, MutableView theta,
                           MutableView velocity) const {
  if (velocity.empty()) {
    loops_.updates.sgd(step, g.data() + first, theta.data() + first, length);
  } else {
    loops_.updates.momentum(step, g.data() + first, theta.data() + first, velocity.data() + first, length);
  }
}

void CpuBackend::sgd_update(const SgdStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                            View g, MutableView theta, MutableView velocity) {
  assert(g.size() == theta.size() && (velocity.empty() || velocity.size() == g.size()));
  update_ranges(settings_.threads, step, scale, ranges,
                [&](const auto& own, Index first, Index length) { sgd_chunk(own, first, length, g, theta, velocity); });
}

void CpuBackend::adagrad_update(const AdagradStep& step, const GradientScale& scale,
                                std::span<const UpdateRange> ranges, View g, MutableView theta,
                                MutableView accumulator) {
  assert(g.size() == theta.size() && g.size() == accumulator.size());
  update_ranges(settings_.threads, step, scale, ranges, [&](const auto& own, Index first, Index length) {
    loops_.updates.adagrad(own, g.data() + first, theta.data() + first, accumulator.data() + first, length);
  });
}

void CpuBackend::rmsprop_update(const RmspropStep& step, const GradientScale& scale,
                                std::span<const UpdateRange> ranges, View g, MutableView theta,
                                MutableView mean_square) {
  assert(g.size() == theta.size() && g.size() == mean_square.size());
  update_ranges(settings_.threads, step, scale, ranges, [&](const auto& own, Index first, Index length) {
    loops_.updates.rmsprop(own, g.data() + first, theta.data() + first, mean_square.data() + first, length);
  });
}

void CpuBackend::adam_update(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                             View g, MutableView theta, MutableView first_moment, MutableView second_moment) {
  assert(g.size() == theta.size() && g.size() == first_moment.size() && g.size() == second_moment.size());
  update_ranges(settings_.threads, step, scale, ranges, [&](const auto& own, Index first, Index length) {
    loops_.updates.adam(own, g.data() + first, theta.data() + first, first_moment.data() + first,
                        second_moment.data() + first, length);
  });
}

/// SGD's rule at rate 1 on a gradient and a decay that were multiplied by the range's rate.
void CpuBackend::lars_update(const LarsStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                             const RangeNorms& norms, View g, MutableView theta, MutableView velocity) {
  assert(g.size() == theta.size() && (velocity.empty() || velocity.size() == g.size()));
  const float gradient_scale = value_of(scale);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const float decay = ranges[i].decays ? step.decay : 0;
    float rate = step.rate;
    if (ranges[i].adapted) {
      const double g_norm = static_cast<double>(gradient_scale) * std::sqrt(norms.other[i]);
      rate = static_cast<float>(static_cast<double>(rate) *
                                lars_ratio(step, static_cast<double>(decay), std::sqrt(norms.theta[i]), g_norm));
    }
    const RangeStep<SgdStep> own{{.rate = 1, .momentum = step.momentum, .decay = rate * decay}, rate * gradient_scale};
    range_chunks(settings_.threads, ranges[i],
                 [&](Index first, Index length) { sgd_chunk(own, first, length, g, theta, velocity); });
  }
}

void CpuBackend::lamb_moments(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                              View g, View theta, MutableView first_moment, MutableView second_moment,
                              std::span<double> directions) {
  assert(g.size() == theta.size() && g.size() == first_moment.size() && g.size() == second_moment.size());
  const float gradient_scale = value_of(scale);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const RangeStep<AdamStep> own = step_on(ranges[i], step, gradient_scale);
    const Index chunks = chunks_of(ranges[i].last - ranges[i].first);
    double* const sums = partials_.doubles(chunks);
    range_chunks(settings_.threads, ranges[i], [&](Index first, Index length) {
      sums[(first - ranges[i].first) / kChunk] =
          loops_.updates.lamb_moments(own, g.data() + first, theta.data() + first, first_moment.data() + first,
                                      second_moment.data() + first, length);
    });
    directions[i] = std::accumulate(sums, sums + chunks, 0.0);
  }
}

void CpuBackend::lamb_apply(const AdamStep& step, std::span<const UpdateRange> ranges, const RangeNorms& norms,
                            MutableView theta, View first_moment, View second_moment) {
  assert(theta.size() == first_moment.size() && theta.size() == second_moment.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const RangeStep<AdamStep> own = step_on(ranges[i], step, 1);
    const double norm = std::sqrt(norms.theta[i]), direction = std::sqrt(norms.other[i]);
    const auto ratio = static_cast<float>(norm == 0 || direction == 0 ? 1 : norm / direction);
    range_chunks(settings_.threads, ranges[i], [&](Index first, Index length) {
      loops_.updates.lamb_apply(own, ratio, theta.data() + first, first_moment.data() + first,
                                second_moment.data() + first, length);
    });
  }
}

}  // namespace unisono::kernels::cpu
