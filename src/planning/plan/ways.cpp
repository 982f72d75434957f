#include "plan/ways.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "unisono/strategies/catalog.hpp"

namespace unisono::planning {
namespace {

ConfigTree tree_of(const std::string& effective) {
  return config_tree({.path = "", .text = effective, .overrides = {}});
}

std::string key_of(const std::string& set) { return set.substr(0, set.find('=')); }

/// What of a config is changed by another `[strategy]`, as words for --set: its kind, the keys that a proposal names,
/// and those that the config has, too, with another value.
std::vector<std::string> changes(const std::string& before, const settings::Config& after,
                                 const std::vector<std::string>& proposed) {
  std::vector<std::string> sets = proposed;
  for (const ConfigDifference& one : differences(tree_of(before), tree_of(settings::effective_config(after)))) {
    const bool is_named =
        std::ranges::any_of(sets, [&](const std::string& set) { return set.starts_with(one.key + "="); });
    if (!one.key.starts_with("strategy.") || is_named || !one.before || !one.after) continue;
    sets.push_back(fmt::format("{}={}", one.key, toml_text(*one.after)));
  }
  return sets;
}

/// Keys with which each rank holds the whole model, where the config's replicas are several ranks.
std::vector<std::string> undivided(const settings::Config& config) {
  if (config.ranks_of_replica() == 1) return {};
  std::vector<std::string> sets;
  if (config.replica.stages != 1) sets = {"replica.stages=1", "train.micro_batches=1"};
  if (config.replica.tensor != 1) sets.emplace_back("replica.tensor=1");
  if (config.replica.tensor_leaves != 0) sets.emplace_back("replica.tensor_leaves=0");
  if (!config.replica.placement.first_layers.empty()) sets.emplace_back("replica.placement.first_layers=[]");
  if (!config.replica.placement.ranks.empty()) sets.emplace_back("replica.placement.ranks=[]");
  if (config.communication.tree_leaves() > 0) sets.emplace_back("communication.reduction=\"fast\"");
  return sets;
}

/// The config with a proposed strategy. \throws ConfigError where it does not suit the rest of the config
Way proposed(const settings::Config& config, const std::string& effective, std::string_view kind,
             const strategies::Proposal& proposal, const models::ModelKinds& models) {
  Way way{.name = std::string(proposal.name),
          .is_close = proposal.is_close,
          .result = std::string(proposal.result),
          .settings = undivided(config)};
  way.settings.push_back(fmt::format("strategy.kind=\"{}\"", kind));
  for (const std::string_view key : proposal.keys) way.settings.push_back(fmt::format("strategy.{}", key));
  way.config = settings::parse_config({.path = fmt::format("the config with {}", proposal.name),
                                       .text = effective,
                                       .overrides = way.settings,
                                       .removals = {"strategy"}},
                                      models);
  way.settings = changes(effective, way.config, way.settings);
  return way;
}

}  // namespace

Way with_config(const Way& way, settings::Config config) {
  Way made = way;
  made.is_asked_for = false;
  const auto before = tree_of(settings::effective_config(way.config)),
             after = tree_of(settings::effective_config(config));
  for (const ConfigDifference& one : differences(before, after)) {
    if (!one.after) continue;
    std::erase_if(made.settings, [&](const std::string& set) { return key_of(set) == one.key; });
    made.settings.push_back(fmt::format("{}={}", one.key, toml_text(*one.after)));
  }
  made.config = std::move(config);
  return made;
}

Ways ways_of(const settings::Config& config, const models::ModelKinds& models) {
  const std::string effective = settings::effective_config(config);
  Ways ways;
  std::string replicas;
  if (config.stages() > 1) replicas = fmt::format(", pipelines of {} stages", config.stages());
  if (config.replica.tensor > 1) replicas = fmt::format(", layers shared by {} ranks", config.replica.tensor);
  ways.fit.push_back(
      {.name = config.strategy.kind + replicas + ", as configured", .config = config, .is_asked_for = true});
  if (config.whole_batch()) return ways;  // no other strategy has such methods
  for (const strategies::StrategyKind& kind : strategies::strategy_kinds()) {
    for (const strategies::Proposal& proposal : kind.proposals) {
      try {
        Way way = proposed(config, effective, kind.name, proposal, models);
        if (settings::effective_config(way.config) != effective) {
          ways.fit.push_back(std::move(way));
        } else {
          ways.fit.front().name = way.name;
          ways.fit.front().result = way.result;
          ways.fit.front().is_close = way.is_close;
        }
      } catch (const ConfigError& error) {
        ways.unfit.push_back({std::string(proposal.name), error.what()});
      }
    }
  }
  return ways;
}

}  // namespace unisono::planning
