#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::session {

/// The counters of a run's parameter servers, by server; empty if there are none.
struct ServingReport {
  std::vector<strategies::ServedShard> shards;

  /// Share of a server's time in which it did not wait for messages.
  double busy_share(const strategies::ServedShard& shard) const;
  /// The staleness of all pushes, or of one worker's, over all servers.
  strategies::Histogram staleness() const;
  strategies::Histogram staleness(std::size_t worker) const;
};

/// Gathers the counters of all ranks' servers. Collective.
ServingReport gather_serving(comm::Communicator& group, const std::vector<strategies::ServedShard>& own);
/// after − before
ServingReport difference(const ServingReport& after, const ServingReport& before);

nlohmann::ordered_json to_json(const strategies::Histogram& histogram);
/// For summary.json: everything.
nlohmann::ordered_json to_json(const ServingReport& report);
/// For a line of metrics.jsonl: sums, and the staleness of all pushes.
nlohmann::ordered_json brief_json(const ServingReport& report);
/// Lines of a summary; empty if there are no servers.
std::string to_text(const ServingReport& report, const settings::Config& config);

}  // namespace unisono::session
