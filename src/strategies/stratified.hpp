#pragma once

#include <memory>
#include <string>

#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

void describe_stratified(StrategySettings& settings, ConfigVisitor& visitor);
void check_stratified(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor);
std::unique_ptr<Strategy> make_stratified(const StrategySettings& settings);
std::string relief_of_stratified(const StrategySettings& settings, bool in_place);

}  // namespace unisono::strategies
