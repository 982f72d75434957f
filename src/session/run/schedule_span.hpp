#pragma once

#include <cstdint>
#include <string>

#include "unisono/settings/config.hpp"

// Over how many epochs a decaying learning rate is spread, when a run is resumed with another length.

namespace unisono::session {

/// The state from which a run is resumed.
struct ResumedAt {
  const std::string& config;  ///< effective config, from the checkpoint
  std::int64_t step = 0, steps_per_epoch = 1;
};

/// The schedule of a run of this config.
optim::Schedule schedule_of(const settings::Config& config, std::int64_t steps_per_epoch);

/// Refuses to let another length of the run change the learning rate unasked.
/// \throws ConfigError saying what would happen to the rate, and how to choose, if the schedule would span other epochs
/// than before and `schedule.epochs` is not set
void require_chosen_span(const settings::Config& config, const ResumedAt& at);

/// A log line about the schedule of a resumed run if `schedule.epochs` changes it; empty if it does not.
std::string change_of_span(const settings::Config& config, const ResumedAt& at);

/// A log line at a run's start if the run is longer or shorter than its schedule; else empty.
std::string span_note(const settings::Config& config, std::int64_t steps_per_epoch);

/// Advice on how to continue a complete run.
std::string way_to_go_on(const settings::Config& config, std::int64_t steps_per_epoch);

}  // namespace unisono::session
