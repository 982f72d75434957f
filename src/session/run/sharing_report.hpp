#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "run/summary.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::session {

/// What gradient sharing counted over all ranks, for summary.json.
nlohmann::ordered_json sharing_json(const strategies::StrategyCounters& counters);
/// The same as a line of the summary: how many updates were shared, what they took, how late they came, and how far
/// apart the ranks were after all of them.
std::string sharing_text(const Summary& summary);

}  // namespace unisono::session
