#pragma once

#include "descent.hpp"
#include "lbfgs_history.hpp"

namespace unisono::optim {

struct LbfgsSettings {
  std::int64_t history = 10;
  LineSearchKind line_search = LineSearchKind::strong_wolfe;
  BatchStopping stopping{};
};

/// L-BFGS (lbfgs.cpp); where f has l1 penalties, OWL-QN (owlqn.cpp).
class Lbfgs final : public BatchMethod {
 public:
  Lbfgs(const LbfgsSettings& settings, Index size);

  BatchIteration iterate(BatchFunction& f, MutableView x) override;
  std::vector<OptimizerState>& state() override { return state_; }
  std::vector<double> scalars() const override;
  void restore(const std::vector<double>& scalars) override;

 private:
  // lbfgs.cpp
  void start(BatchFunction& f, View x);
  void iterate_smooth(BatchFunction& f, MutableView x);
  bool step_along(const LbfgsDirection& direction, BatchFunction& f, View x);
  void take(BatchFunction& f, MutableView x, double value);
  double first_step(const LbfgsDirection& direction) const;
  // owlqn.cpp
  void start_orthantwise(BatchFunction& f, View x);
  void iterate_orthantwise(BatchFunction& f, MutableView x);
  bool step_orthantwise(const LbfgsDirection& direction, BatchFunction& f, View x);
  double steepness(BatchFunction& f, View x);

  Buffer& gradient() { return state_.front().values; }
  std::span<OptimizerState> pairs() { return std::span(state_).subspan(1); }
  LbfgsHistory::GradientPiece piece_of(BatchFunction& f, View x);

  LbfgsSettings settings_;
  std::vector<OptimizerState> state_;  ///< gradient, s0 …, y0 …
  LbfgsHistory history_;
  BatchProgress progress_;
  Buffer direction_;  ///< d
  LineStep step_;
  std::unique_ptr<LineSearch> search_;
};

/// ⋄F by elements; all three arguments must outlive it.
LbfgsHistory::GradientPiece pseudo_gradient_of(const BatchFunction& f, View x, View gradient);

}  // namespace unisono::optim
