#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "unisono/strategies/strategy.hpp"

// What strategies without a centre report. All counters are sums over the ranks, as sum_over_ranks makes them.

namespace unisono::session {

/// after − before: the counts of exchanges, bytes and staleness; the rest is that of `after`.
strategies::GossipCounters difference(strategies::GossipCounters after, const strategies::GossipCounters& before);

/// For summary.json: everything.
nlohmann::ordered_json to_json(const strategies::GossipCounters& sums);
/// For a line of metrics.jsonl, of exchanges of single pairs.
nlohmann::ordered_json brief_json(const strategies::GossipCounters& sums);
/// A line of a summary. \param share of the bytes that a rank sends in an epoch
std::string to_text(const strategies::GossipCounters& sums, double share);

}  // namespace unisono::session
