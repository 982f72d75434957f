#pragma once

#include <cstdint>
#include <vector>

#include "server/event_order.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

// What strategies share in which each rank trains parameters of its own at its own pace, and no servers count its
// steps.

/// Strategy::need_of_examples where steps are dealt to whoever asks first.
inline constexpr const char* kStepsOfNothing = "take steps from the others and train on nothing";

/// From step `made` to the next report, evaluation or checkpoint, or as it was recorded.
Segment next_segment(const TrainContext& run, std::int64_t made);

/// This rank continues after so many steps of its own.
void continue_after(TrainContext& run, std::int64_t steps);

/// In which order this rank acted in a segment of the replayed run; not given, where the run is no replay.
EventOrder replayed_order(const TrainContext& run, const Segment& segment);

/// Gives the recorder the order in which each rank acted. Collective. \param events of this rank
void record(TrainContext& run, comm::Communicator& ranks, const Segment& segment,
            const std::vector<ServerEvent>& events);

/// Of the run at the end of a segment. Collective. \param steps, examples of this rank \param before examples of all
/// ranks, up to the last record
StepRecord record_of(const TrainContext& run, comm::Communicator& ranks, const Segment& segment, std::int64_t steps,
                     Index examples, Index& before);

}  // namespace unisono::strategies
