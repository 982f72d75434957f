#pragma once

#include <cstdint>
#include <vector>

#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// A period that becomes shorter as the training loss falls; adaptive_period.cpp has the formula.
class AdaptivePeriod {
 public:
  /// What it has learnt; the same on all ranks.
  struct State {
    double first_loss = -1;   ///< F(θ₀); negative: not measured yet
    std::int64_t period = 0;  ///< τ, the present one; 0: τ₀
    std::vector<double> scalars() const;
    void restore(const std::vector<double>& scalars);
  };

  /// \param first τ₀ \param state outlives this object
  AdaptivePeriod(TrainContext& run, std::int64_t first, State& state);

  /// A period begins after so many steps of the run; its losses are counted from here on.
  void begin(std::int64_t made);
  bool ends(std::int64_t made) const { return made == begun_ + state_.period; }
  /// At an average: measures the losses since `begin`, and chooses the next period. Collective over all ranks of all
  /// replicas.
  void choose();

 private:
  double loss_of_period();

  TrainContext& run_;
  std::int64_t first_, begun_ = 0;
  State& state_;
  kernels::LossSums before_;  ///< the run's unreported losses of earlier periods
};

}  // namespace unisono::strategies
