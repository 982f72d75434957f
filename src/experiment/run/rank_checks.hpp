#pragma once

#include "machine/parts.hpp"

// What all ranks of a run must have in common. Everything is collective, and all ranks throw alike.

namespace unisono::experiment {

/// Before anything is read or written: the same experiment on every rank, from the same binary. \throws LaunchError
void require_same_experiment(comm::Communicator& group, const Config& config);

/// The same bits from the same numbers. \throws LaunchError
void require_same_instructions(comm::Communicator& group);

/// \throws LaunchError
void require_same_data(comm::Communicator& group, const data::DatasetInfo& data);

/// \throws ConfigError where the rank that is to be slow (`[fault]`) does not train
void require_slow_rank(const Config& config, const ModelParts& parts);

}  // namespace unisono::experiment
