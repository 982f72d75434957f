#pragma once

#include <vector>

#include "plan/network.hpp"
#include "plan/prediction.hpp"
#include "plan/ways.hpp"
#include "unisono/nn/network.hpp"

namespace unisono::planning {

/// What a way would do on some ranks, of which several share the work of each layer.
/// \pre replica.tensor divides the ranks, and there is no obstacle (obstacle_to_division) \throws ConfigError where the
/// model cannot be divided so, or where a rank could not hold its part
Prediction predict_shared_layers(const Planned& planned, const Way& way, const Ranks& ranks);

/// Whether the model has layers whose work ranks can share.
bool has_layers_to_share(const Planned& planned, const settings::Config& config);

/// The way with so many ranks that share layers. \pre the way's own replicas are single ranks
Way share_layers(const Way& way, const Ranks& ranks, int tensor);

/// The numbers of ranks of a host that are worth a line, if they share layers.
std::vector<int> tensor_ranks_to_propose(const Ranks& ranks);

/// Of the time of a whole network's passes, what a rank with a part of it takes.
/// \param seconds of the whole network's segments; empty: flops decide
double share_of_passes(const nn::Network& whole, const nn::Network& part,
                       const std::vector<parallel::PassSeconds>& seconds);

}  // namespace unisono::planning
