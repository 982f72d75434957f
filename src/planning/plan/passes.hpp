#pragma once

#include "plan/measure.hpp"
#include "plan/prediction.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::planning {

/// Seconds of portions of the training set, of whole-batch methods, on the ranks of `world`. Collective.
PortionSeconds time_portions(comm::Communicator& world, const Measured& measured, int threads);

/// A pass over the training set, for the gradient, and the method's work on its vectors: an iteration that evaluates
/// the gradient once. \throws ConfigError where the profile does not say how long portions take
Prediction predict_pass(const Planned& planned, const Way& way, const Ranks& ranks);

}  // namespace unisono::planning
