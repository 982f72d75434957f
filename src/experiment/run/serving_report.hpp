#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/experiment/config.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::experiment {

/// What the servers of a run have counted, by server; empty where there are none.
struct ServingReport {
  std::vector<strategies::ServedShard> shards;

  double busy_share(const strategies::ServedShard& shard) const;
  /// Of all pushes, or of one worker's, over all servers.
  strategies::Histogram staleness() const;
  strategies::Histogram staleness(std::size_t worker) const;
};

/// All ranks' servers. Collective.
ServingReport gather_serving(comm::Communicator& world, const std::vector<strategies::ServedShard>& own);
/// after − before
ServingReport difference(const ServingReport& after, const ServingReport& before);

/// For summary.json: everything.
nlohmann::ordered_json to_json(const ServingReport& report);
/// For a line of metrics.jsonl: sums, and the staleness of all.
nlohmann::ordered_json brief_json(const ServingReport& report);
/// Lines of a summary; empty where there are no servers.
std::string to_text(const ServingReport& report, const Config& config);

}  // namespace unisono::experiment
