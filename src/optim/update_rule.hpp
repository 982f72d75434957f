#pragma once

#include <cmath>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/kernels/update_kernels.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/tensor/exact_sum.hpp"
#include "unisono/tensor/holding.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::optim {

/// The rules by which θ is divided into ranges.
struct RangeRules {
  bool decay = false;  ///< there is weight decay at all
  DecayRule rule = DecayRule::weights;
  bool adapt_weights = false;  ///< each block of weights is a range of its own, with a rate of its own (LARS, LAMB)
};

/// As few ranges as the rules allow: one for the whole vector where all blocks are alike. The padding after a block
/// belongs to its range. Frozen blocks are left out.
std::vector<kernels::UpdateRange> make_ranges(const ParameterLayout& layout, const RangeRules& rules);

/// A layout of the rank's vector that has a block for each of the holding's ranges, and so the ranges of equal decay
/// and rate (make_ranges) of θ itself.
ParameterLayout layout_of(const Holding& holding);

/// Sums of squares over vectors of which several ranks hold a copy together; each number is counted once.
/// Each call is collective: one message; rarely a second one, where doubles do not settle how an exact sum is rounded
/// (see ExactSquares).
class DividedSums {
 public:
  /// \param holding must outlive the object; its squares() are not null
  explicit DividedSums(const Holding& holding);

  /// Adds the squares of a range of this rank's vector to a sum, exactly or in doubles.
  using Add = std::function<void(const kernels::UpdateRange& range, bool exactly, ExactSquares& sum)>;

  /// Over all of θ.
  double whole(const Add& add);

  struct Vector {
    Add add;
    std::span<double> norms;
  };
  /// vector.norms[i] ← the sum over the whole block that ranges[i] is a part of, for several vectors; 0 for ranges that
  /// are not adapted.
  void of_blocks(std::span<const kernels::UpdateRange> ranges, std::initializer_list<Vector> vectors);

 private:
  /// A contribution of this rank to one of several sums.
  struct Term {
    const Add* add;
    kernels::UpdateRange range;
    std::size_t sum;  ///< its number
  };
  std::vector<double> totals(std::size_t count, const std::vector<Term>& terms);

  std::vector<BlockRange> own_;  ///< of this rank's vector
  std::size_t blocks_;           ///< of all of θ
  SquaresReducer& ranks_;
};

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
  std::unique_ptr<kernels::StepAtOnce> step_at_once(MutableView parameters) final;
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
  /// The same as `update`, where a backward pass makes it. \param step of all of θ, without g
  virtual std::unique_ptr<kernels::StepAtOnce> update_at_once(const RuleStep& /*step*/,
                                                              kernels::StepKernels& /*kernels*/) {
    return nullptr;
  }

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

/// The `make` of a rule's OptimizerKind.
template <typename Rule>
std::unique_ptr<Optimizer> make_rule(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     kernels::UpdateKernels& kernels) {
  return std::make_unique<Rule>(settings, layout, kernels);
}

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

/// The constants of Adam, AdamW and LAMB.
struct AdamConstants {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  void describe(ConfigVisitor& visitor);
};

/// What Adam, AdamW and LAMB hand to their kernels in their t-th step, t ≥ 1.
/// \param decoupled λθ is added to the direction and not to the gradient
inline kernels::AdamStep adam_step(const AdamConstants& adam, const RuleStep& step, std::int64_t t, bool decoupled) {
  // Of β as the kernels see it, rounded to float: the mean square then starts without a bias.
  const auto correction = [t](double beta) {
    const auto rounded = static_cast<double>(static_cast<float>(beta));
    return static_cast<float>(1.0 / (1.0 - std::pow(rounded, static_cast<double>(t))));
  };
  return {.rate = step.rate,
          .decay = step.decay,
          .beta1 = static_cast<float>(adam.beta1),
          .beta2 = static_cast<float>(adam.beta2),
          .epsilon = static_cast<float>(adam.epsilon),
          .correction1 = correction(adam.beta1),
          .correction2 = correction(adam.beta2),
          .decoupled = decoupled};
}

}  // namespace unisono::optim
