#pragma once

#include <memory>

#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

std::unique_ptr<Strategy> make_serial(const StrategySettings& settings);

}  // namespace unisono::strategies
