#include "plan/ways.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "unisono/strategies/catalog.hpp"

namespace unisono::planning {
namespace {

/// The config with a proposed strategy. \throws ConfigError where it does not suit the rest of the config
Way proposed(const std::string& effective, std::string_view kind, const strategies::Proposal& proposal,
             const models::ModelKinds& models) {
  Way way{.name = std::string(proposal.name),
          .result = std::string(proposal.result),
          .settings = {fmt::format("strategy.kind=\"{}\"", kind)}};
  for (const std::string_view key : proposal.keys) way.settings.push_back(fmt::format("strategy.{}", key));
  way.config = settings::parse_config({.path = fmt::format("the config with {}", proposal.name),
                                       .text = effective,
                                       .overrides = way.settings,
                                       .removals = {"strategy"}},
                                      models);
  return way;
}

}  // namespace

Ways ways_of(const settings::Config& config, const models::ModelKinds& models) {
  const std::string effective = settings::effective_config(config);
  Ways ways;
  ways.fit.push_back({.name = config.strategy.kind + ", as configured", .config = config, .is_asked_for = true});
  for (const strategies::StrategyKind& kind : strategies::strategy_kinds()) {
    for (const strategies::Proposal& proposal : kind.proposals) {
      try {
        Way way = proposed(effective, kind.name, proposal, models);
        if (settings::effective_config(way.config) != effective) {
          ways.fit.push_back(std::move(way));
        } else {
          ways.fit.front().name = way.name;
          ways.fit.front().result = way.result;
        }
      } catch (const ConfigError& error) {
        ways.unfit.push_back({std::string(proposal.name), error.what()});
      }
    }
  }
  return ways;
}

}  // namespace unisono::planning
