#pragma once

#include <string>

#include "parameter_average.hpp"
#include "server/server.hpp"
#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The learning rate for a stale gradient: the same as for any other, or divided by its staleness.
enum class StaleRate { whole, divided };

/// The keys of strategy.kind = "parameter_server".
struct ParameterServerSettings {
  Consistency consistency = Consistency::asynchronous;
  std::int64_t staleness = 2;  ///< with bounded: steps that a pull may miss of each worker's pushes
  std::int64_t pull_period = 1, push_period = 1;
  bool prefetch = false;  ///< pull while the previous step computes
  StaleRate stale_rate = StaleRate::whole;
  double delay_compensation = 0;                   ///< λ of DC-ASGD; 0: none
  std::int64_t warmup_steps = 0;                   ///< steps at the start that worker 0 makes alone
  MergeChoice merge = MergeChoice::by_model;       ///< for models that are updated in place
  parallel::CompressionSettings compression = {};  ///< of pushed gradients
};

void describe_parameter_server(StrategySettings& settings, ConfigVisitor& visitor);
void check_parameter_server(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor);
std::string relief_of_parameter_server(const StrategySettings& settings, bool in_place);

}  // namespace unisono::strategies
