#pragma once

#include <vector>

#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// What is done with an average of the ranks' parameters.
enum class OuterKind {
  none,     ///< the average is the new θ
  sgd,      ///< a step along Δ
  nesterov  ///< the same with Nesterov momentum
};

/// `[strategy.outer]`: the outer optimizer.
struct OuterSettings {
  OuterKind kind = OuterKind::none;
  double sgd_rate = 1, nesterov_rate = 0.7;  ///< η of each kind
  double nesterov_momentum = 0.9;            ///< μ

  bool is_on() const { return kind != OuterKind::none; }
  double rate() const { return kind == OuterKind::sgd ? sgd_rate : nesterov_rate; }
  double momentum() const { return kind == OuterKind::nesterov ? nesterov_momentum : 0; }
  void describe(ConfigVisitor& visitor);
};

/// An optimizer whose gradient is what the ranks have moved since the last average; outer_step.cpp has the formula.
class OuterStep {
 public:
  /// The vectors that it keeps: θ₀, and v where there is momentum; the same on all ranks.
  static std::vector<parallel::StateVector> state_vectors(const OuterSettings& settings);
  /// Called while all ranks hold the same θ, which becomes θ₀. \param run its `vectors` are those of state_vectors
  OuterStep(TrainContext& run, const OuterSettings& settings);

  /// One step from θ₀. \param mean in: the ranks' average, the same on all of them; out: the new θ₀
  void step(MutableView mean);

 private:
  TrainContext& run_;
  float rate_, momentum_;
  MutableView start_;     ///< θ₀, [N] as θ
  MutableView velocity_;  ///< v, [N] as θ; empty without momentum
};

}  // namespace unisono::strategies
