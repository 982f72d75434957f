#pragma once

#include <memory>
#include <string>

#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

struct ElasticSettings {
  std::int64_t period = 16;  ///< a worker's steps between exchanges with the center
  double elasticity = 0;     ///< α; 0: 0.9 / workers
};

void describe_elastic_averaging(StrategySettings& settings, ConfigVisitor& visitor);
std::unique_ptr<Strategy> make_elastic_averaging(const StrategySettings& settings);
std::string relief_of_elastic_averaging(const StrategySettings& settings, bool in_place);

}  // namespace unisono::strategies
