#include "unisono/strategies/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

// Each in the file of its name.
StrategyKind allreduce_strategy(), averaging_strategy(), batch_strategy(), elastic_averaging_strategy();
StrategyKind feature_parallel_strategy();
StrategyKind gossip_strategy(), gossip_async_strategy(), gradient_sharing_strategy(), hogwild_strategy();
StrategyKind parameter_server_strategy(), private_copies_strategy(), serial_strategy(), stratified_strategy();

const std::vector<StrategyKind>& strategy_kinds() {
  static const std::vector<StrategyKind> kinds = {
      allreduce_strategy(),        averaging_strategy(),        batch_strategy(),          elastic_averaging_strategy(),
      feature_parallel_strategy(), gossip_strategy(),           gossip_async_strategy(),   gradient_sharing_strategy(),
      hogwild_strategy(),          parameter_server_strategy(), private_copies_strategy(), serial_strategy(),
      stratified_strategy()};
  return kinds;
}

std::string names_of_kinds(bool (*fits)(const StrategyTraits& traits)) {
  std::vector<std::string_view> fitting;
  for (const StrategyKind& kind : strategy_kinds()) {
    if (fits(kind.traits)) fitting.push_back(kind.name);
  }
  return any_of(fitting);
}

std::string kind_with(bool StrategyTraits::*trait) {
  const auto& kinds = strategy_kinds();
  const auto found = std::ranges::find_if(kinds, [&](const StrategyKind& kind) { return kind.traits.*trait; });
  return std::string(found->name);
}

std::string default_kind() { return std::string(strategy_kinds().front().name); }

const StrategyKind& kind_of(const StrategySettings& settings) {
  const auto& kinds = strategy_kinds();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const StrategyKind& kind) { return kind.name == settings.kind; });
  if (found != kinds.end()) return *found;
  throw ConfigError(fmt::format("strategy.kind is '{}'; it must be {}", settings.kind,
                                names_of_kinds([](const StrategyTraits&) { return true; })));
}

}  // namespace unisono::strategies
