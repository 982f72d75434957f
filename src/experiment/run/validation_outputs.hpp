#pragma once

#include <vector>

#include "machine/parts.hpp"

namespace unisono::experiment {

/// What the model predicts for the validation examples: [examples, output_size], the same on every rank. Collective.
/// \throws ConfigError where the ranks hold parts of the model
std::vector<float> validation_outputs(ModelParts& parts, TrainingParts& training, data::Dataset& data,
                                      const Config& config);

}  // namespace unisono::experiment
