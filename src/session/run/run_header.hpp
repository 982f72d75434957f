#pragma once

#include <cstdint>

#include "unisono/records/event_file.hpp"
#include "unisono/session/checkpoint.hpp"
#include "unisono/session/run_plan.hpp"

namespace unisono::session {

/// The checkpoint header of a new run, at step 0. \param averaged whether weights are averaged
CheckpointHeader first_header(const RunPlan& plan, const ModelParts& parts, bool averaged);

/// The header of a run's record of events, which must be the same when the record is continued or replayed.
records::EventFileHeader events_header(const CheckpointHeader& header, const settings::Config& config,
                                       const ModelParts& parts, std::int64_t steps_per_epoch);

}  // namespace unisono::session
