#pragma once

#include <cstdint>
#include <string>

// What a trial's run folder has from which it or others go on: its newest checkpoint, and its states at the ends of its
// steps, which other trials may take over.

namespace unisono::jobs {

bool has_checkpoint(const std::string& run_folder);
void remove_checkpoints(const std::string& run_folder);

/// Keeps the newest checkpoint, which the trial's next step may remove. If it cannot be kept, nobody takes it over.
void keep_state(const std::string& run_folder, std::int64_t epochs);
/// Removes the states that were kept.
void remove_states(const std::string& run_folder);
/// Puts another trial's last state of fewer epochs than these in the place of a trial's checkpoints.
/// \throws CheckpointError
void take_over(const std::string& other_folder, std::int64_t epochs, const std::string& run_folder);

}  // namespace unisono::jobs
