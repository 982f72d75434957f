#pragma once

#include "unisono/models/alternating.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// Checks that alternating least squares can train a model. \throws ConfigError if not
void require_alternating(const models::Model& model);

/// About how many bytes a rank allocates for it in addition to θ, if the ranks have equal shares of the ratings.
std::int64_t alternating_bytes(const models::Alternating& model, int ranks);

/// Trains by alternating least squares until total_steps iterations are made, or the observer says so, or an iteration
/// changes the objective by at most AlsSettings::function_tolerance. One iteration is one step and one epoch. θ is all
/// that one iteration leaves to the next. All ranks end with the same bits, which depend neither on the number of ranks
/// nor on threads. Collective.
/// The value of an iteration is the objective, divided by the number of ratings.
void train_alternating(TrainContext& run);

}  // namespace unisono::strategies
