#pragma once

#include <cstdint>
#include <string>

#include "unisono/experiment/config.hpp"

// The epochs that a falling learning rate is spread over, when a run is resumed with another length.

namespace unisono::experiment {

/// Where a run stands that is resumed.
struct ResumedAt {
  const std::string& config;  ///< effective, of the checkpoint
  std::int64_t step = 0, steps_per_epoch = 1;
};

/// The schedule of a run of this config.
optim::Schedule schedule_of(const Config& config, std::int64_t steps_per_epoch);

/// Another length of the run must not move the learning rate unasked.
/// \throws ConfigError saying what would happen to the rate, and how to choose, where the schedule would span other
/// epochs than before and `schedule.epochs` does not say so
void require_chosen_span(const Config& config, const ResumedAt& at);

/// What a resumed run says of its schedule where `schedule.epochs` makes it another one; empty: it is as it was.
std::string change_of_span(const Config& config, const ResumedAt& at);

/// What a run says at its start where it is longer or shorter than its schedule; empty: it is neither.
std::string span_note(const Config& config, std::int64_t steps_per_epoch);

/// How a complete run is made longer.
std::string way_to_go_on(const Config& config, std::int64_t steps_per_epoch);

}  // namespace unisono::experiment
