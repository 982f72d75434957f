#include "run/gossip_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "run/serving_report.hpp"
#include "unisono/base/text.hpp"
#include "unisono/session/losses.hpp"

namespace unisono::session {
namespace {

/// How fast exchanges in step bring ranks together; or how many there were of single pairs, and how many came in steps.
std::string exchanges_text(const strategies::GossipCounters& sums) {
  if (sums.exchanges < 0) {
    return fmt::format("an exchange leaves at most {:.2f} of a distance{}", sums.second_singular_value,
                       sums.rounds == 1 ? "" : fmt::format(" (of {} exchanges)", sums.rounds));
  }
  const auto [least, most] = std::ranges::minmax(sums.worker_steps);
  return fmt::format("{}, {:.2g} during a step on average, at most {}; ranks made {} to {}",
                     count_of(sums.exchanges, "exchange"), sums.staleness.mean(), sums.staleness.largest(),
                     grouped(least), count_of(most, "step"));
}

}  // namespace

strategies::GossipCounters difference(strategies::GossipCounters after, const strategies::GossipCounters& before) {
  after.exchanges -= before.exchanges;
  after.sent_bytes -= before.sent_bytes;
  for (std::size_t i = 0; i < before.staleness.counts.size(); ++i) {
    after.staleness.counts[i] -= before.staleness.counts[i];
  }
  return after;
}

nlohmann::ordered_json to_json(const strategies::GossipCounters& sums) {
  nlohmann::ordered_json json = {{"sent_bytes", sums.sent_bytes}, {"consensus_distance", consensus_distance(sums)}};
  if (sums.exchanges < 0) {
    json["second_singular_value"] = sums.second_singular_value;
    json["rounds"] = sums.rounds;
  } else {
    json.update(brief_json(sums));
    json["rank_steps"] = sums.worker_steps;
  }
  return json;
}

nlohmann::ordered_json brief_json(const strategies::GossipCounters& sums) {
  return {{"sent_bytes", sums.sent_bytes}, {"exchanges", sums.exchanges}, {"staleness", to_json(sums.staleness)}};
}

std::string to_text(const strategies::GossipCounters& sums, double share) {
  return fmt::format(
      "  gossip      {:.1f} MB per epoch and rank to neighbours; ranks are {:.3g} % of the norm from their consensus; "
      "{}\n",
      static_cast<double>(sums.sent_bytes) * share * 1e-6, 100 * consensus_distance(sums), exchanges_text(sums));
}

}  // namespace unisono::session
