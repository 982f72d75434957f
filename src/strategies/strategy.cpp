#include "unisono/strategies/strategy.hpp"

#include <fmt/format.h>

namespace unisono::strategies {

void StrategySettings::describe_threads(ConfigVisitor& visitor) {
  visitor.field({.name = "threads",
                 .meaning = "threads of a rank that train on the same parameters at the same time; 0: the rank's equal "
                            "share of the cores that it may run on, or a single one where a short trial at the start "
                            "finds several no faster (linear models and factorization, but not with stratified)",
                 .range = at_least(0).at_most(4096)},
                threads);
}

void StrategySettings::describe_servers(ConfigVisitor& visitor) {
  visitor.number_or(
      {.name = "servers",
       .meaning = "number of ranks that only serve: each holds a shard of the parameters and does not train",
       .range = at_least(1).at_most(1 << 20)},
      servers, {"colocated", "every rank trains, and also serves a shard in a separate thread"});
}

void StrategySettings::describe(ConfigVisitor& visitor) {
  std::vector<Variant> variants;
  for (const StrategyKind& row : strategy_kinds()) {
    variants.push_back({row.name, row.meaning});
    if (row.describe == nullptr) continue;
    variants.back().describe = [this, &row](ConfigVisitor& inner) { row.describe(*this, inner); };
  }
  visitor.variant({.name = "kind", .meaning = "strategy of parallel training"}, kind, variants);
}

void Strategy::require(const models::Model& model, int) const {
  if (traits().needs_gradient) require_gradient(model);
}

void require_gradient(const models::Model& model) {
  try {
    model.require_gradient();
  } catch (const ConfigError& error) {
    throw UnfitStrategy(error.what());
  }
}

namespace {

/// The kinds that, with their defaults, can train the model with an optimizer for batches.
std::vector<std::string_view> fitting_kinds(const models::Model& model, int ranks) {
  std::vector<std::string_view> fitting;
  for (const StrategyKind& kind : strategy_kinds()) {
    if (kind.traits.whole_batch) continue;
    try {
      make_strategy({.kind = std::string(kind.name)})->require(model, ranks);
      fitting.push_back(kind.name);
    } catch (const ConfigError&) {
      // it cannot
    }
  }
  return fitting;
}

}  // namespace

void require_fit(const Strategy& strategy, const models::Model& model, int ranks) {
  try {
    strategy.require(model, ranks);
  } catch (const UnfitStrategy& error) {
    const std::vector<std::string_view> others = fitting_kinds(model, ranks);
    if (others.empty()) throw;
    throw ConfigError(fmt::format("{}; these values of strategy.kind can train it: {}", error.what(), any_of(others)));
  }
}

bool Strategy::updates_in_place(const models::Model& model) const {
  return !traits().needs_gradient && model.in_place() != nullptr;
}

std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings) {
  const StrategyKind& kind = kind_of(settings);
  std::unique_ptr<Strategy> strategy = kind.make(settings);
  strategy->traits_ = kind.traits;
  return strategy;
}

}  // namespace unisono::strategies
