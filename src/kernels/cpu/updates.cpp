#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"
#include "cpu/loops.hpp"
#include "unisono/kernels/update_kernels.hpp"

// The formulas and papers are in loops_isa/updates.cpp.
namespace unisono::kernels::cpu {
namespace {

// How update rules iterate over the ranges of θ.

/// The factor of the gradient, see kernels::value_of.
inline float value_of(const GradientScale& scale) {
  return unisono::kernels::value_of(scale, scale.clip_norm == 0 ? 0 : scale.squared_norm.front());
}

/// The scalars of a step on one range: without decay where the range does not decay.
template <typename Step>
RangeStep<Step> step_on(const UpdateRange& range, const Step& step, float gradient_scale) {
  RangeStep<Step> own{step, gradient_scale};
  if (!range.decays) own.decay = 0;
  return own;
}

/// Calls work(first, length) for every chunk of a range; `first` is an offset in the whole vector.
template <typename Work>
void range_chunks(int threads, const UpdateRange& range, const Work& work) {
  parallel_chunks(threads, range.last - range.first,
                  [&](Index first, Index length) { work(range.first + first, length); });
}

/// Calls work(step, first, length) for the chunks of all ranges, each with the scalars of its range.
template <typename Step, typename Work>
void update_ranges(int threads, const Step& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                   const Work& work) {
  const float gradient_scale = value_of(scale);
  for (const UpdateRange& range : ranges) {
    const RangeStep<Step> own = step_on(range, step, gradient_scale);
    range_chunks(threads, range, [&](Index first, Index length) { work(own, first, length); });
  }
}

/// LARS's factor of the rate of a range.
double lars_ratio(const LarsStep& step, double decay, double theta_norm, double g_norm) {
  if (theta_norm == 0 || g_norm == 0) return 1;
  return step.trust * theta_norm / (g_norm + decay * theta_norm);
}

View part(View x, const UpdateRange& range) {
  return x.subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.last - range.first));
}

/// Steps of pieces of θ, by a loop over each: run(scalars of the piece's range, first, count, g).
template <typename Step, typename Run>
class PieceSteps final : public StepAtOnce {
 public:
  /// \param vectors that the loop reads and writes
  PieceSteps(const Step& step, float gradient_scale, std::span<const UpdateRange> ranges, Run run,
             std::vector<const float*> vectors)
      : ranges_(ranges),
        decaying_(step_on({.decays = true}, step, gradient_scale)),
        plain_(step_on({.decays = false}, step, gradient_scale)),
        run_(std::move(run)),
        vectors_(std::move(vectors)) {}

  void step(Index first, Index count, const float* g) const override {
    const auto range = std::ranges::upper_bound(ranges_, first, {}, &UpdateRange::last);
    assert(range != ranges_.end() && range->first <= first && first + count <= range->last);
    run_(range->decays ? decaying_ : plain_, first, count, g);
  }
  std::span<const float* const> vectors() const override { return vectors_; }

 private:
  std::span<const UpdateRange> ranges_;
  RangeStep<Step> decaying_, plain_;
  Run run_;
  std::vector<const float*> vectors_;
};

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

std::unique_ptr<StepAtOnce> CpuBackend::sgd_at_once(const SgdStep& step, float gradient_scale,
                                                    std::span<const UpdateRange> ranges, MutableView theta,
                                                    MutableView velocity) {
  const auto make = [&](auto run, std::vector<const float*> vectors) -> std::unique_ptr<StepAtOnce> {
    return std::make_unique<PieceSteps<SgdStep, decltype(run)>>(step, gradient_scale, ranges, run, std::move(vectors));
  };
  float *const w = theta.data(), *const v = velocity.data();
  if (velocity.empty()) {
    return make([w, loop = loops_.updates.sgd](const auto& own, Index first, Index count,
                                               const float* g) { loop(own, g, w + first, count); },
                {w});
  }
  return make([w, v, loop = loops_.updates.momentum](const auto& own, Index first, Index count,
                                                     const float* g) { loop(own, g, w + first, v + first, count); },
              {w, v});
}

std::unique_ptr<StepAtOnce> CpuBackend::adam_at_once(const AdamStep& step, float gradient_scale,
                                                     std::span<const UpdateRange> ranges, MutableView theta,
                                                     MutableView first, MutableView second) {
  const auto run = [w = theta.data(), m = first.data(), s = second.data(), loop = loops_.updates.adam](
                       const auto& own, Index at, Index count, const float* g) {
    loop(own, g, w + at, m + at, s + at, count);
  };
  return std::make_unique<PieceSteps<AdamStep, decltype(run)>>(
      step, gradient_scale, ranges, run, std::vector<const float*>{theta.data(), first.data(), second.data()});
}

/// LARS as SGD's rule at rate 1: gradient and decay are multiplied by the range's rate.
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
    const double sum = sum_of_chunks(
        settings_.threads, ranges[i].last - ranges[i].first, partials_, [&](Index at, Index length, double* part) {
          const Index first = ranges[i].first + at;
          loops_.updates.lamb_moments(own, g.data() + first, theta.data() + first, first_moment.data() + first,
                                      second_moment.data() + first, length, part);
        });
    directions[i] = settled_directions(own, ranges[i], sum, theta, first_moment, second_moment);
  }
}

/// The exact sum of squares, rounded. \param sum to within ExactSquares::kRelativeError of it
double CpuBackend::settled_directions(const RangeStep<AdamStep>& step, const UpdateRange& range, double sum, View theta,
                                      View first_moment, View second_moment) {
  if (const auto value = ExactSquares::settled_value(sum)) return *value;
  ExactSquares exact;
  add_directions(step, range, theta, first_moment, second_moment, exact);
  return exact.value();
}

void CpuBackend::add_directions(const RangeStep<AdamStep>& step, const UpdateRange& range, View theta,
                                View first_moment, View second_moment, ExactSquares& exact) const {
  std::vector<float> directions(kChunk);
  for (Index first = range.first; first < range.last; first += kChunk) {
    const Index length = std::min(kChunk, range.last - first);
    loops_.updates.lamb_directions(step, theta.data() + first, first_moment.data() + first,
                                   second_moment.data() + first, directions.data(), length);
    exact.add(View(directions).first(static_cast<std::size_t>(length)));
  }
}

void CpuBackend::sum_lamb_directions(const AdamStep& step, std::span<const UpdateRange> ranges, View theta,
                                     View first_moment, View second_moment, bool exactly,
                                     std::span<ExactSquares> sums) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const RangeStep<AdamStep> own = step_on(ranges[i], step, 1);
    if (exactly) {
      add_directions(own, ranges[i], theta, first_moment, second_moment, sums[i]);
      continue;
    }
    sums[i].add_sum(sum_of_chunks(
        settings_.threads, ranges[i].last - ranges[i].first, partials_, [&](Index at, Index length, double* part) {
          const Index first = ranges[i].first + at;
          std::array<float, kChunk> directions;
          loops_.updates.lamb_directions(own, theta.data() + first, first_moment.data() + first,
                                         second_moment.data() + first, directions.data(), length);
          loops_.algebra.squared_norm(directions.data(), length, part);
        }));
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

void CpuBackend::clear(MutableView x) {
  parallel_chunks(settings_.threads, static_cast<Index>(x.size()),
                  [&](Index first, Index length) { std::fill_n(x.data() + first, length, 0.0F); });
}

double CpuBackend::dot(View x, View y) {
  assert(x.size() == y.size());
  const auto size = static_cast<Index>(x.size());
  double* sums = partials_.doubles(chunks_of(size));
  parallel_chunks(settings_.threads, size, [&](Index first, Index length) {
    sums[first / kChunk] = loops_.algebra.dot(x.data() + first, y.data() + first, length);
  });
  return std::accumulate(sums, sums + chunks_of(size), 0.0);
}

double CpuBackend::sum_of_squares(View x) {
  return sum_of_chunks(
      settings_.threads, static_cast<Index>(x.size()), partials_,
      [&](Index first, Index length, double* sum) { loops_.algebra.squared_norm(x.data() + first, length, sum); });
}

double CpuBackend::squared_norm(View x) {
  if (const auto value = ExactSquares::settled_value(sum_of_squares(x))) return *value;
  ExactSquares exact;
  exact.add(x);
  return exact.value();
}

void CpuBackend::squared_norms(View x, std::span<const UpdateRange> ranges, std::span<double> norms) {
  assert(norms.size() == ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) norms[i] = squared_norm(part(x, ranges[i]));
}

void CpuBackend::sum_squares(View x, std::span<const UpdateRange> ranges, bool exactly, std::span<ExactSquares> sums) {
  assert(sums.size() == ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const View own = part(x, ranges[i]);
    if (exactly) {
      sums[i].add(own);
    } else {
      sums[i].add_sum(sum_of_squares(own));
    }
  }
}

void CpuBackend::axpby(float a, View x, float b, MutableView y) {
  assert(x.size() == y.size());
  parallel_chunks(settings_.threads, static_cast<Index>(x.size()), [&](Index first, Index length) {
    loops_.algebra.axpby(a, x.data() + first, b, y.data() + first, length);
  });
}

}  // namespace unisono::kernels::cpu
