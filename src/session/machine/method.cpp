#include "unisono/session/method.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unisono/base/errors.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::session {
namespace {

void require_derivatives(const settings::Config& config, models::Model& model) {
  const optim::OptimizerTraits& traits = optim::traits_of(config.optimizer);
  const auto refuse = [&](std::string_view why) {
    throw ConfigError(fmt::format("optimizer.kind = \"{}\": {}", config.optimizer.kind, why));
  };
  if (traits.needs_hessian && model.convex() == nullptr) {
    refuse("it needs second derivatives, which only model.kind = \"linear\" has; use lbfgs");
  }
  if (traits.takes_l1 || model.convex() == nullptr) return;
  for (const models::PenalisedRange& one : model.convex()->penalties()) {
    if (one.l1 > 0) refuse("it cannot minimise model.l1, whose penalty has kinks at 0; use lbfgs, or l2 instead");
  }
}

/// Models that are made of two tables have a method of their own.
void require_alternating(const settings::Config& config, const models::Model& model) {
  const bool alternates = optim::traits_of(config.optimizer).alternating;
  if (alternates && model.alternating() == nullptr) {
    throw ConfigError(
        fmt::format("optimizer.kind = \"{}\" trains models of two tables, of users and items: model.kind = "
                    "\"factorization\"; use lbfgs for this model",
                    config.optimizer.kind));
  }
  if (alternates && config.optimizer.weight_decay != 0) {
    throw ConfigError("optimizer.weight_decay: als has the penalties model.user_l2 and model.item_l2; remove it");
  }
  if (alternates && config.optimizer.decay != DecayRule::weights) {
    const bool older = config.optimizer.decay_biases_and_norms;
    throw ConfigError(
        fmt::format("optimizer.{}: als has no weight_decay; remove it", older ? "decay_biases_and_norms" : "decay"));
  }
  if (!alternates && model.alternating() != nullptr) {
    throw ConfigError(
        fmt::format("optimizer.kind = \"{}\" does not train model.kind = \"{}\" on the whole set; use als",
                    config.optimizer.kind, config.model.kind));
  }
}

}  // namespace

void require_method(const settings::Config& config, models::Model& model, const data::DatasetInfo& data) {
  if (!config.whole_batch()) return;
  require_alternating(config, model);
  if (model.alternating() != nullptr) return;
  models::Objective::require(model, data);
  require_derivatives(config, model);
}

std::unique_ptr<optim::BatchMethod> make_method(const ModelParts& parts, const settings::Config& config) {
  if (!config.whole_batch() || optim::traits_of(config.optimizer).alternating) return nullptr;
  return optim::make_batch_method(config.optimizer, parts.held.state->size());
}

std::unique_ptr<models::Objective> make_objective(ModelParts& parts, const settings::Config& config,
                                                  data::Dataset& data) {
  require_method(config, *parts.model, data.info());
  if (!config.whole_batch() || optim::traits_of(config.optimizer).alternating) return nullptr;
  data::Delivery delivery = parts.delivery();
  if (parts.backend->device() == nullptr) delivery.keep = {};  // rows are then used where they lie
  return std::make_unique<models::Objective>(
      *parts.model, *parts.backend, data,
      models::ObjectiveTerms{.portions = parts.strategy->portions(*parts.model, data.info()),
                             .class_weights = parts.class_weights,
                             .weight_decay = config.optimizer.weight_decay,
                             .decay = config.optimizer.decay,
                             .delivery = delivery});
}

std::int64_t method_bytes(const settings::Config& config, models::Model& model, int rank, int ranks) {
  constexpr Index kMatrices = 8;  // of Hessians: one, its shards, and those of some subtrees
  if (!config.whole_batch() || model.alternating() != nullptr) return 0;
  const optim::OptimizerTraits& traits = optim::traits_of(config.optimizer);
  const Index n = model.layout().size(), shard = VectorShards(n, ranks).shard_size(rank);
  Index floats = shard * (1 + optim::optimizer_state_vectors(config.optimizer) + traits.temporaries);
  if (traits.needs_hessian) floats += n;
  if (traits.needs_hessian && model.convex()->hessian_cost(0) < HUGE_VAL) floats += kMatrices * n * n;
  return static_cast<std::int64_t>(sizeof(float)) * floats;
}

Index examples_of_pass(const strategies::Strategy& strategy, models::Model& model, const data::DatasetInfo& data) {
  const Index most = models::ObjectiveTerms{}.batch_size;
  if (data.train == 0) return most;
  const int portions = strategy.portions(model, data);
  const Index count = (data.train + portions - 1) / portions;
  return std::min(count, models::objective_batch(model, data, count, most));
}

}  // namespace unisono::session
