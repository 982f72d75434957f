#pragma once

#include <string>

#include "unisono/settings/config.hpp"

namespace unisono::session {

/// "4 ranks", "4 ranks, of which 3 train,", "4 ranks (2 replicas of 2 stages)"
std::string ranks_text(const settings::Config& config, int ranks, int workers, int stages);

/// "32 of 64 examples", "12 to 25 of 50 examples": how many of a step's examples a rank (with stages: a replica) takes.
/// \param workers the ranks, or replicas, that train, at least 1
std::string local_batch_text(const settings::Config& config, int workers);

}  // namespace unisono::session
