#pragma once

#include <vector>

#include "unisono/session/model_parts.hpp"
#include "unisono/session/training_parts.hpp"

namespace unisono::session {

/// What the model predicts for the validation examples: [examples, output_size], the same on every rank. Collective.
/// \throws ConfigError where the ranks hold parts of the model
std::vector<float> validation_outputs(ModelParts& parts, TrainingParts& training, data::Dataset& data,
                                      const settings::Config& config);

}  // namespace unisono::session
