#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

void StrategySettings::describe_threads(ConfigVisitor& visitor) {
  visitor.field({.name = "threads",
                 .meaning = "threads of a rank that train on the same parameters at the same time; 0: the rank's equal "
                            "share of the cores that it may run on, or a single one where a short trial at the start "
                            "finds several no faster (linear models and factorization, but not with stratified)",
                 .minimum = 0,
                 .maximum = 4096},
                threads);
}

void StrategySettings::describe_servers(ConfigVisitor& visitor) {
  visitor.number_or(
      {.name = "servers",
       .meaning = "number of ranks that only serve: each holds a shard of the parameters and does not train",
       .minimum = 1,
       .maximum = 1 << 20},
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
  if (traits().needs_gradient) model.require_gradient();
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
