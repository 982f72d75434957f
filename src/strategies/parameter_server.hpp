#pragma once

#include <memory>
#include <string>

#include "parameter_average.hpp"
#include "server/server.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The learning rate of stale gradients: as of any other, or divided by the staleness.
enum class StaleRate { whole, divided };

struct ParameterServerSettings {
  Consistency consistency = Consistency::asynchronous;
  std::int64_t staleness = 2;  ///< bounded: steps
  std::int64_t pull_period = 1, push_period = 1;
  bool prefetch = false;  ///< pull while the step before computes
  StaleRate stale_rate = StaleRate::whole;
  double delay_compensation = 0;        ///< λ
  std::int64_t warmup_steps = 0;        ///< that worker 0 makes alone
  RowMerge merge = RowMerge::by_model;  ///< of models that are updated in place
};

void describe_parameter_server(StrategySettings& settings, ConfigVisitor& visitor);
void check_parameter_server(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor);
std::string relief_of_parameter_server(const StrategySettings& settings, bool in_place);

}  // namespace unisono::strategies
