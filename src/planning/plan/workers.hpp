#pragma once

#include "plan/prediction.hpp"
#include "plan/ways.hpp"

namespace unisono::planning {

/// What a way would do on one rank whose threads each make steps of their own on the model that they share.
/// \pre the way's strategy has workers, and a `traffic` of the model on one rank \throws ConfigError where the profile
/// has no steps of such threads
Prediction predict_workers(const Planned& planned, const Way& way);

}  // namespace unisono::planning
