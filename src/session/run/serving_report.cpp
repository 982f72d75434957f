#include "run/serving_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "unisono/models/factory.hpp"
#include "unisono/records/progress.hpp"

namespace unisono::session {
namespace {

constexpr double kBusy = 0.8;  ///< from this share of busy time on, a server is considered a bottleneck

nlohmann::json raw_json(const strategies::ServedShard& shard) {
  const strategies::ServerCounters& counters = shard.counters;
  nlohmann::json staleness = nlohmann::json::array();
  for (const strategies::Histogram& histogram : counters.staleness) staleness.push_back(histogram.counts);
  return {shard.server,          shard.rank,           shard.floats,
          counters.pulls,        counters.pushes,      counters.pulled_bytes,
          counters.pushed_bytes, counters.seconds,     counters.idle_seconds,
          std::move(staleness),  counters.held_seconds};
}

strategies::ServedShard shard_from(const nlohmann::json& json) {
  strategies::ServedShard shard{.server = json[0], .rank = json[1], .floats = json[2], .counters = {}};
  shard.counters = {.pulls = json[3],
                    .pushes = json[4],
                    .pulled_bytes = json[5],
                    .pushed_bytes = json[6],
                    .seconds = json[7],
                    .idle_seconds = json[8],
                    .staleness = {},
                    .held_seconds = json[10]};
  for (const auto& counts : json[9]) shard.counters.staleness.push_back({counts.get<std::vector<std::int64_t>>()});
  return shard;
}

/// A counter summed over the servers.
std::int64_t sum(const ServingReport& report, std::int64_t strategies::ServerCounters::*count) {
  std::int64_t all = 0;
  for (const strategies::ServedShard& shard : report.shards) all += shard.counters.*count;
  return all;
}

double megabytes(const ServingReport& report) {
  double floats = 0;
  for (const strategies::ServedShard& shard : report.shards) floats += static_cast<double>(shard.floats);
  return sizeof(float) * floats * 1e-6;
}

/// Seconds that a worker's pulls were held back for other workers: the maximum over the servers.
double held_seconds(const ServingReport& report, std::size_t worker) {
  double longest = 0;
  for (const strategies::ServedShard& shard : report.shards)
    longest = std::max(longest, shard.counters.held_seconds[worker]);
  return longest;
}

/// The figures of all servers together.
nlohmann::ordered_json sums_json(const ServingReport& report) {
  return {{"pulls", sum(report, &strategies::ServerCounters::pulls)},
          {"pushes", sum(report, &strategies::ServerCounters::pushes)},
          {"pulled_bytes", sum(report, &strategies::ServerCounters::pulled_bytes)},
          {"pushed_bytes", sum(report, &strategies::ServerCounters::pushed_bytes)},
          {"staleness", to_json(report.staleness())}};
}

}  // namespace

nlohmann::ordered_json to_json(const strategies::Histogram& histogram) {
  return {{"mean", histogram.mean()}, {"largest", histogram.largest()}, {"counts", histogram.counts}};
}

double ServingReport::busy_share(const strategies::ServedShard& shard) const {
  return 1 - shard.counters.idle_seconds / std::max(shard.counters.seconds, 1e-9);
}

strategies::Histogram ServingReport::staleness() const {
  strategies::Histogram all;
  for (const strategies::ServedShard& shard : shards) {
    for (const strategies::Histogram& worker : shard.counters.staleness) all += worker;
  }
  return all;
}

strategies::Histogram ServingReport::staleness(std::size_t worker) const {
  strategies::Histogram all;
  for (const strategies::ServedShard& shard : shards) all += shard.counters.staleness[worker];
  return all;
}

ServingReport gather_serving(comm::Communicator& group, const std::vector<strategies::ServedShard>& own) {
  nlohmann::json mine = nlohmann::json::array();
  for (const strategies::ServedShard& shard : own) mine.push_back(raw_json(shard));
  ServingReport report;
  for (const std::string& text : group.all_gather_text(mine.dump())) {
    for (const auto& json : nlohmann::json::parse(text)) report.shards.push_back(shard_from(json));
  }
  std::sort(report.shards.begin(), report.shards.end(),
            [](const strategies::ServedShard& a, const strategies::ServedShard& b) { return a.server < b.server; });
  return report;
}

ServingReport difference(const ServingReport& after, const ServingReport& before) {
  ServingReport between = after;
  for (std::size_t i = 0; i < before.shards.size(); ++i) {
    strategies::ServerCounters& now = between.shards[i].counters;
    const strategies::ServerCounters& then = before.shards[i].counters;
    now.pulls -= then.pulls;
    now.pushes -= then.pushes;
    now.pulled_bytes -= then.pulled_bytes;
    now.pushed_bytes -= then.pushed_bytes;
    now.seconds -= then.seconds;
    now.idle_seconds -= then.idle_seconds;
    for (std::size_t w = 0; w < now.staleness.size(); ++w) {
      now.held_seconds[w] -= then.held_seconds[w];
      for (std::size_t k = 0; k < then.staleness[w].counts.size(); ++k) {
        now.staleness[w].counts[k] -= then.staleness[w].counts[k];
      }
    }
  }
  return between;
}

nlohmann::ordered_json to_json(const ServingReport& report) {
  nlohmann::ordered_json json = sums_json(report);
  for (const strategies::ServedShard& shard : report.shards) {
    json["servers"].push_back(
        {{"rank", shard.rank},
         {"shard_bytes", shard.floats * static_cast<std::int64_t>(sizeof(float))},
         {"pulls", shard.counters.pulls},
         {"pushes", shard.counters.pushes},
         {"busy", report.busy_share(shard)},
         {"updates_per_second", static_cast<double>(shard.counters.pushes) / std::max(shard.counters.seconds, 1e-9)}});
  }
  for (std::size_t worker = 0; worker < report.shards.front().counters.staleness.size(); ++worker) {
    json["workers"].push_back(
        {{"held_seconds", held_seconds(report, worker)}, {"staleness", to_json(report.staleness(worker))}});
  }
  return json;
}

nlohmann::ordered_json brief_json(const ServingReport& report) {
  nlohmann::ordered_json json = sums_json(report);
  for (const strategies::ServedShard& shard : report.shards) json["busy"].push_back(report.busy_share(shard));
  return json;
}

std::string to_text(const ServingReport& report, const settings::Config& config) {
  if (report.shards.empty()) return "";
  const auto busier = [&](const strategies::ServedShard& a, const strategies::ServedShard& b) {
    return report.busy_share(a) < report.busy_share(b);
  };
  const strategies::ServedShard& busiest = *std::max_element(report.shards.begin(), report.shards.end(), busier);
  const strategies::Histogram staleness = report.staleness();
  std::string text = fmt::format(
      "  servers     {} with {:.1f} MB in total, {} pushes, staleness {:.2g} updates on average, at most {}; the "
      "busiest server was busy {:.0f} % of the time\n",
      report.shards.size(), megabytes(report), grouped(sum(report, &strategies::ServerCounters::pushes)),
      staleness.mean(), staleness.largest(), 100 * report.busy_share(busiest));
  if (report.busy_share(busiest) > kBusy && config.strategy.replayed_workers == 0) {
    text += fmt::format("  bottleneck  server {} on rank {}: {}\n", busiest.server, busiest.rank,
                        kind_of(config.strategy).relief(config.strategy, models::has_in_place_kind(config.model)));
  }
  return text;
}

}  // namespace unisono::session
