#pragma once

#include <vector>

#include "averaging/outer_step.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// An average that is computed while the next steps are made; delayed_average.cpp has the formula.
class DelayedAverage {
 public:
  /// Collective: allocates.
  explicit DelayedAverage(TrainContext& run);
  /// Bytes of memory that one object takes on each rank.
  static std::int64_t bytes(const models::Model& model);

  /// Starts the average of θ as it is now. Collective. \param share this rank's; they add up to 1 over the ranks
  void start(double share);
  /// Drives the average that is under way, if there is one. Called after each step.
  void advance();
  /// Ends the average that is under way, if there is one, and applies it to θ. Collective.
  /// \param outer makes a step from the average; may be null
  void finish(OuterStep* outer);

 private:
  void weigh(View values, double share, MutableView result);
  void wait();

  TrainContext& run_;
  Buffer before_;  ///< this rank's θ when the average was started
  Buffer mean_;    ///< its share of the average; then the average
  std::vector<comm::RequestPtr> sums_;
};

}  // namespace unisono::strategies
