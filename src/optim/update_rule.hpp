#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "divided_sums.hpp"
#include "unisono/base/config.hpp"
#include "unisono/optim/catalog.hpp"

namespace unisono::optim {

/// The arguments of one step, for all of this rank's θ or a part of it.
struct RuleStep {
  MutableView theta;
  View g;
  std::span<const kernels::UpdateRange> ranges;  ///< of theta and g
  FloatRange floats;                             ///< of the rank's θ: which are theta and g
  float rate = 0;
  float decay = 0;  ///< λ, of the ranges that decay
  kernels::GradientScale scale;
};

/// What all update rules share: state vectors, the count of steps, ranges of equal decay, and clipping by the norm of
/// the whole gradient,
///     g ← g · min(1, clip_norm / ‖g‖)        Pascanu, Mikolov, Bengio, ICML 2013,
/// whose factor is folded into the rule's own pass over g.
class UpdateRule : public Optimizer {
 public:
  void step(MutableView parameters, View gradient, double learning_rate, float gradient_scale) final;
  bool steps_in_parts() const final { return clip_norm_ == 0 && !has_block_rates_; }
  void begin_step(double learning_rate, float gradient_scale) final;
  void step_part(Index first, MutableView parameters, View gradient) final;
  std::vector<OptimizerState>& state() final { return state_; }
  std::int64_t steps() const final { return steps_; }
  void set_steps(std::int64_t steps) final { steps_ = steps; }
  void reset() final;
  double last_gradient_norm() const final;

  /// Declares θ to be sharded: the layout that this was made with is then that of the rank's shards.
  void divide(DividedSums sums) { divided_.emplace(std::move(sums)); }

 protected:
  /// \param adapt_weights each block of weights is a range of its own
  UpdateRule(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::UpdateKernels& backend,
             const std::vector<std::string>& state_names, bool adapt_weights = false);

  /// Updates θ and the state in the ranges of the step, which steps() counts already.
  virtual void update(const RuleStep& step) = 0;

  kernels::UpdateKernels& backend() { return backend_; }
  const std::vector<kernels::UpdateRange>& ranges() const { return ranges_; }  ///< of all of this rank's θ
  /// Null where this rank holds all of θ.
  DividedSums* divided() { return divided_ ? &*divided_ : nullptr; }
  /// Adds squares of this rank's part of a vector; for DividedSums.
  DividedSums::Add squares_of(View vector);
  /// Its floats of the step. Empty where the rule keeps no such vector.
  MutableView state_vector(std::size_t which, const RuleStep& step);

 private:
  void begin(double learning_rate, const kernels::GradientScale& scale);
  /// \param floats of the rank's θ \param ranges of them, relative to the first
  void update_floats(FloatRange floats, std::span<const kernels::UpdateRange> ranges, MutableView parameters,
                     View gradient);

  kernels::UpdateKernels& backend_;
  std::vector<kernels::UpdateRange> ranges_, whole_;  ///< whole: one of all
  std::vector<kernels::UpdateRange> part_ranges_;     ///< of the part of a step
  bool has_block_rates_;
  std::optional<DividedSums> divided_;
  std::vector<OptimizerState> state_;
  std::size_t own_state_;  ///< number of vectors in state_ that the rule uses
  double weight_decay_, clip_norm_;
  Buffer squared_norm_;     ///< [1] as a double: ‖g‖² of the last step, where gradients are clipped
  float last_factor_ = -1;  ///< gradient_scale of the last step with clipping; below 0: none yet
  std::int64_t steps_ = 0;
  double rate_ = 0;               ///< of this step
  kernels::GradientScale scale_;  ///< likewise
};

/// A buffer with one double for each range, in the device's memory.
class RangeSums {
 public:
  RangeSums(std::size_t ranges, kernels::UpdateKernels& backend)
      : numbers_(2 * static_cast<Index>(ranges), backend.memory()) {}
  std::span<double> view() { return as_doubles(numbers_.view()); }

 private:
  Buffer numbers_;
};

// Keys that several update rules have.

/// momentum, in [0, 1)
void describe_momentum(ConfigVisitor& visitor, double& momentum);
/// epsilon, above 0: where gradient and state are 0, a step must not divide 0 by 0
void describe_epsilon(ConfigVisitor& visitor, double& epsilon);

}  // namespace unisono::optim
