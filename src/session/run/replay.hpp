#pragma once

#include <cstdint>
#include <string>

#include "run/summary.hpp"
#include "unisono/base/log.hpp"
#include "unisono/records/event_file.hpp"

namespace unisono::session {

/// What a replay repeats of a recorded run.
struct Repetition {
  strategies::EventRecord events;
  std::int64_t steps = 0;  ///< number of steps to repeat
};

/// Reads a run's record and checks that it can be replayed here bit for bit. Steps after the run's newest checkpoint,
/// which a killed run may have recorded, are not repeated, because there is nothing to compare with. \param here
/// binary, machine and data of this process \param checkpoint step of the newest checkpoint \throws CheckpointError if
/// the record is damaged, or saying why it cannot be replayed here
Repetition plan_repetition(const std::string& run, const records::EventFileHeader& here, std::int64_t checkpoint,
                           Log& log);

/// \throws TrainingError if the replay ended with other parameters than the recorded run
void require_repeated(const Summary& summary, const std::string& run_folder);

}  // namespace unisono::session
