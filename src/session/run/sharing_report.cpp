#include "run/sharing_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "run/serving_report.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/losses.hpp"

namespace unisono::session {

nlohmann::ordered_json sharing_json(const strategies::StrategyCounters& counters) {
  const strategies::SharingCounters& sharing = counters.sharing;
  return {{"sent_bytes", sharing.sent_bytes},
          {"plain_bytes", sharing.plain_bytes},
          {"updates", sharing.updates},
          {"staleness", to_json(sharing.staleness)},
          {"consensus_distance", consensus_distance(counters.gossip)}};
}

std::string sharing_text(const Summary& summary) {
  const strategies::SharingCounters& sharing = summary.counters.sharing;
  if (sharing.plain_bytes <= 0) return "  sharing     there is one rank, which sends nothing\n";
  const double megabytes = 1e-6 / summary.ranks / summary.epochs_made;
  return fmt::format(
      "  sharing     {} updates in {:.1f} MB per epoch and rank, {:.3g} % of the {:.1f} MB of whole ones; staleness "
      "{:.2g} updates on average, at most {}; ranks ended {:.2g} of the norm from their mean\n",
      grouped(sharing.updates), megabytes * static_cast<double>(sharing.sent_bytes),
      100.0 * static_cast<double>(sharing.sent_bytes) / static_cast<double>(sharing.plain_bytes),
      megabytes * static_cast<double>(sharing.plain_bytes), sharing.staleness.mean(), sharing.staleness.largest(),
      consensus_distance(summary.counters.gossip));
}

}  // namespace unisono::session
