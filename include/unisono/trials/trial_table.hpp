#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "unisono/search/space.hpp"
#include "unisono/trials/trial_plan.hpp"

namespace unisono::trials {

/// The table of a search's trials.
struct TrialTable {
  const TrialPlan& plan;
  const search::Space& space;
  std::string metric;          ///< "validation accuracy"
  std::int64_t at_a_time = 1;  ///< how many trainings could run side by side
  double seconds = 0;          ///< from the first trial's begin to the last one's end, in this job

  /// A line for each trial: its number, how it ended, value, deviation, epochs, settings, metrics (means over repeats
  /// and folds), message. Nothing in it depends on time or ranks.
  std::string csv() const;
  /// The table with the times. Cores were in trials for Σ trials' seconds / (at_a_time · seconds) of the time.
  nlohmann::ordered_json json(bool is_complete) const;
};

}  // namespace unisono::trials
