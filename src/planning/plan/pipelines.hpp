#pragma once

#include <optional>
#include <string>

#include "plan/network.hpp"
#include "plan/prediction.hpp"
#include "plan/ways.hpp"

namespace unisono::planning {

/// What a way whose replicas are pipelines would do on some ranks.
/// \pre nothing is left to the placement, the stages divide the ranks, and there is no obstacle (obstacle_to_division)
/// \throws ConfigError where the model cannot be cut so
Prediction predict_pipeline(const Planned& planned, const Way& way, const Ranks& ranks);

/// A pipeline that is worth a line of the table.
struct ProposedPipeline {
  Way way;
  Prediction made;
};

/// The way with replicas of so many stages, cut as the placement chooses, and with the number of micro-batches, of a
/// few, that is fastest and fits; where none fits, the one that needs least memory. Nothing: there are too few
/// examples. \pre as predict_pipeline; the way's own replicas are single ranks
std::optional<ProposedPipeline> propose_pipeline(const Planned& planned, const Way& way, const Ranks& ranks,
                                                 int stages);

/// The numbers of stages that are worth a line on some ranks. \param most stages that the network can be cut into
std::vector<int> stages_to_propose(const Ranks& ranks, int most);

/// The most micro-batches for each rank that propose_pipeline tries.
inline constexpr int kMostMicroBatches = 4;

}  // namespace unisono::planning
