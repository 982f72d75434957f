#pragma once

#include <string>

#include "unisono/session/model_parts.hpp"
#include "unisono/settings/config.hpp"

// Checks at the start of a run. Each names what it requires; all are collective, and all ranks throw the same.
namespace unisono::session {

/// Requires the same config and the same binary on every rank; called before anything is read or written. \throws
/// LaunchError
void require_same_experiment(comm::Communicator& group, const settings::Config& config);

/// Requires the same CPU instruction set on every rank, so that all compute the same bits. \throws LaunchError
void require_same_instructions(comm::Communicator& group);

/// Requires the same data set on every rank. \throws LaunchError
void require_same_data(comm::Communicator& group, const data::DatasetInfo& data);

/// Examples of every whole step on each rank that trains, where the strategy needs them. \throws ConfigError
/// \param examples of the training set
void require_examples(const settings::Config& config, const ModelParts& parts, Index examples);

/// The rank that `[fault]` slows down exists and trains. \throws ConfigError
void require_slow_rank(const settings::Config& config, const ModelParts& parts);

/// "4 ranks", "4 ranks, of which 3 train,", "4 ranks (2 replicas of 2 stages)"
std::string ranks_text(const settings::Config& config, int ranks, int workers, int stages);

/// "32 of 64 examples", "12 to 25 of 50 examples": how many of a step's examples a rank (with stages: a replica) takes.
/// \param workers the ranks, or replicas, that train, at least 1
std::string local_batch_text(const settings::Config& config, int workers);

}  // namespace unisono::session
