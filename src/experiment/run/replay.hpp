#pragma once

#include <string>

#include "run/event_file.hpp"
#include "run/summary.hpp"

namespace unisono::experiment {

/// A record that can be repeated here bit for bit. \param here build, machine and data of this process
/// \throws CheckpointError for one that is damaged, or that says why it cannot
strategies::EventRecord read_repeatable(const std::string& path, const EventFileHeader& here);

/// \throws TrainingError where the repeated run, compared with the recorded one, ended elsewhere
void require_repeated(const Summary& summary, const std::string& run_folder);

}  // namespace unisono::experiment
