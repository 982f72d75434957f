#pragma once

#include <cstdint>
#include <string>

#include "run/event_file.hpp"
#include "run/summary.hpp"
#include "unisono/base/log.hpp"

namespace unisono::experiment {

/// A run that is to be repeated.
struct Repetition {
  strategies::EventRecord events;
  std::int64_t steps = 0;  ///< that are repeated
};

/// Of a run whose record can be repeated here bit for bit. A run that was killed may have recorded more than its newest
/// checkpoint holds: only what can be compared is repeated. \param here build, machine and data of this process
/// \param checkpoint the step of that checkpoint
/// \throws CheckpointError for a record that is damaged, or that says why it cannot be repeated
Repetition plan_repetition(const std::string& run, const EventFileHeader& here, std::int64_t checkpoint, Log& log);

/// \throws TrainingError where the repeated run, compared with the recorded one, ended elsewhere
void require_repeated(const Summary& summary, const std::string& run_folder);

}  // namespace unisono::experiment
