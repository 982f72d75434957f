#pragma once

#include <cstdint>

#include "machine/parts.hpp"
#include "run/event_file.hpp"
#include "unisono/experiment/checkpoint.hpp"

namespace unisono::experiment {

/// What the checkpoints of a new run say of it, at step 0. \param config with what the data decide
CheckpointHeader first_header(const Config& config, const ModelParts& parts, data::Dataset& data, bool averaged);

/// What a record of events is begun with, and what it must still be when it is gone on with or repeated.
EventFileHeader events_header(const CheckpointHeader& header, const Config& config, const ModelParts& parts,
                              std::int64_t steps_per_epoch);

}  // namespace unisono::experiment
