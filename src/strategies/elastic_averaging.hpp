#pragma once

#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The keys of strategy.kind = "elastic_averaging".
struct ElasticSettings {
  std::int64_t period = 16;  ///< a worker's steps between exchanges with the center
  double elasticity = 0;     ///< α, the share of their difference by which worker and center move; 0: 0.9 / workers
};

}  // namespace unisono::strategies
