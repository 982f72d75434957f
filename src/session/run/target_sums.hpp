#pragma once

#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/models/model.hpp"

namespace unisono::session {

/// Sums over this rank's examples for each of several targets, from which their R² follows.
class TargetSums final : public models::PredictionReader {
 public:
  /// \param targets T, the targets of an example
  explicit TargetSums(Index targets) : one_(static_cast<std::size_t>(targets)) {}

  void read(View rows, View answers, View scores) override;

  /// The mean over the targets of R² = 1 − Σ(y − t)² / Σ(t − mean t)², over all ranks' examples. Targets that are the
  /// same for all examples have none, and are left out; NaN where all are. Collective. Called once.
  double r2(comm::Communicator& group);

 private:
  struct Sums {
    double target = 0, target_squared = 0, squared_error = 0;
  };
  std::vector<Sums> one_;  ///< [T]
  double examples_ = 0;
};

}  // namespace unisono::session
