#pragma once

#include <cstdint>
#include <memory>

#include "unisono/models/objective.hpp"
#include "unisono/session/model_parts.hpp"

// Methods for the whole training set (optimizer.kind = "lbfgs", …): what they need, and what they are made of.

namespace unisono::session {

/// Checks that the config's method can train this model on this set; nothing for other optimizers.
/// \throws ConfigError naming what of the model, the loss or the data it cannot use
void require_method(const settings::Config& config, models::Model& model, const data::DatasetInfo& data);

/// The method, with this rank's shards of its vectors; null for other optimizers.
std::unique_ptr<optim::BatchMethod> make_method(const ModelParts& parts, const settings::Config& config);

/// What the method minimises; null for other optimizers, and for alternating least squares. \throws ConfigError
std::unique_ptr<models::Objective> make_objective(ModelParts& parts, const settings::Config& config,
                                                  data::Dataset& data);

/// Bytes of the method's vectors on a rank, and of matrices; 0 for other optimizers. \param model with the whole of θ
std::int64_t method_bytes(const settings::Config& config, models::Model& model, int rank, int ranks);

/// The most examples of a pass of the model, for whole-batch methods. Of a set without examples: as of a large one.
Index examples_of_pass(const strategies::Strategy& strategy, models::Model& model, const data::DatasetInfo& data);

}  // namespace unisono::session
