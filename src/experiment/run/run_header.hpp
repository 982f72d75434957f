#pragma once

#include <cstdint>

#include "machine/parts.hpp"
#include "run/event_file.hpp"
#include "unisono/experiment/checkpoint.hpp"

namespace unisono::experiment {

/// The checkpoint header of a new run, at step 0. \param config after `settle`: with what the data decide
CheckpointHeader first_header(const Config& config, const ModelParts& parts, data::Dataset& data, bool averaged);

/// The header of a run's record of events, which must be the same when the record is continued or replayed.
EventFileHeader events_header(const CheckpointHeader& header, const Config& config, const ModelParts& parts,
                              std::int64_t steps_per_epoch);

}  // namespace unisono::experiment
