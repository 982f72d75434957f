#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ranges.hpp"
#include "unisono/optim/optimizer.hpp"

namespace unisono {

/// One range of θ in one step.
struct RangeStep {
  MutableView theta;
  View g;  ///< to be read as gradient_scale · g
  float rate = 0;
  float decay = 0;           ///< λ where the range decays, else 0
  float gradient_scale = 1;  ///< from clipping
  Range range;
};

/// What all update rules share: state vectors, the count of steps, ranges of equal decay, and clipping by the norm of
/// the whole gradient,
///     g ← g · min(1, clip_norm / ‖g‖)        Pascanu, Mikolov, Bengio, ICML 2013,
/// whose factor is folded into the rule's own pass over g.
class UpdateRule : public Optimizer {
 public:
  void step(MutableView parameters, View gradient, double learning_rate, float gradient_scale) final;
  std::vector<OptimizerState>& state() final { return state_; }
  std::int64_t steps() const final { return steps_; }
  void set_steps(std::int64_t steps) final { steps_ = steps; }
  void reset() final;
  double last_gradient_norm() const final { return gradient_norm_; }

 protected:
  /// \param adapt_weights each block of weights is a range of its own
  UpdateRule(const OptimizerSettings& settings, const ParameterLayout& layout, Backend& backend,
             const std::vector<std::string>& state_names, bool adapt_weights = false);

  /// Updates θ and the state in one range; steps() counts this step already.
  virtual void update(const RangeStep& step) = 0;

  Backend& backend() { return backend_; }
  /// The range's part of a state vector; empty where the rule keeps no such vector.
  MutableView state_part(std::size_t which, const Range& range);

 private:
  float clip(View gradient, float gradient_scale);

  Backend& backend_;
  std::vector<Range> ranges_;
  std::vector<OptimizerState> state_;
  std::size_t own_state_;  ///< vectors of these that are the rule's
  double weight_decay_, clip_norm_;
  double gradient_norm_ = -1;
  std::int64_t steps_ = 0;
};

// One file each in this folder.
std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings&, const ParameterLayout&, Backend&);
std::unique_ptr<Optimizer> make_adagrad(const OptimizerSettings&, const ParameterLayout&, Backend&);
std::unique_ptr<Optimizer> make_rmsprop(const OptimizerSettings&, const ParameterLayout&, Backend&);
std::unique_ptr<Optimizer> make_adam(const OptimizerSettings&, const ParameterLayout&, Backend&);  // and AdamW
std::unique_ptr<Optimizer> make_lars(const OptimizerSettings&, const ParameterLayout&, Backend&);
std::unique_ptr<Optimizer> make_lamb(const OptimizerSettings&, const ParameterLayout&, Backend&);

}  // namespace unisono
