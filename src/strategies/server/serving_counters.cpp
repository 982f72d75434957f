#include "server/serving_counters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/text.hpp"

namespace unisono::strategies {
namespace {

constexpr double kBusy = 0.8;  ///< from this share of busy time on, a server is considered a bottleneck

using Shards = std::vector<ServedShard>;

/// A counter summed over the servers.
std::int64_t sum(const Shards& shards, std::int64_t ServerCounters::*count) {
  std::int64_t all = 0;
  for (const ServedShard& shard : shards) all += shard.counters.*count;
  return all;
}

Histogram staleness_of(const Shards& shards, std::size_t worker) {
  Histogram all;
  for (const ServedShard& shard : shards) all += shard.counters.staleness[worker];
  return all;
}

Histogram staleness_of(const Shards& shards) {
  Histogram all;
  for (std::size_t worker = 0; worker < shards.front().counters.staleness.size(); ++worker) {
    all += staleness_of(shards, worker);
  }
  return all;
}

/// Seconds that a worker's pulls were held back for other workers: the maximum over the servers.
double held_seconds(const Shards& shards, std::size_t worker) {
  double longest = 0;
  for (const ServedShard& shard : shards) longest = std::max(longest, shard.counters.held_seconds[worker]);
  return longest;
}

/// What the ranks add up. A server's number and size are zero on all ranks but its own.
void describe_sums(ServedShard& shard, CounterVisitor& visitor) {
  constexpr auto kSum = [](std::string_view name) {
    return Counter{.name = name, .shown = Shown::everywhere, .hidden = true};
  };
  constexpr auto kFixed = [](std::string_view name) {
    return Counter{.name = name, .shown = Shown::everywhere, .hidden = true, .adds_up = false};
  };
  ServerCounters& counters = shard.counters;
  visitor.count(kFixed("rank"), shard.rank);
  visitor.count(kFixed("floats"), shard.floats);
  visitor.count(kSum("pulls"), counters.pulls);
  visitor.count(kSum("pushes"), counters.pushes);
  visitor.count(kSum("pulled_bytes"), counters.pulled_bytes);
  visitor.count(kSum("pushed_bytes"), counters.pushed_bytes);
  visitor.number(kSum("seconds"), counters.seconds);
  visitor.number(kSum("idle_seconds"), counters.idle_seconds);
  for (Histogram& worker : counters.staleness) visitor.histogram(kSum("staleness"), worker);
  for (double& worker : counters.held_seconds) visitor.number(kSum("held_seconds"), worker);
}

void describe_server(const ServedShard& shard, CounterVisitor& visitor) {
  const ServerCounters& counters = shard.counters;
  visitor.begin_element("servers");
  visitor.figure({.name = "rank"}, shard.rank);
  visitor.figure({.name = "shard_bytes", .unit = "bytes"}, shard.floats * static_cast<std::int64_t>(sizeof(float)));
  visitor.figure({.name = "pulls"}, counters.pulls);
  visitor.figure({.name = "pushes"}, counters.pushes);
  visitor.figure({.name = "busy", .unit = "share"}, shard.busy_share());
  visitor.figure({.name = "updates_per_second"},
                 static_cast<double>(counters.pushes) / std::max(counters.seconds, 1e-9));
  visitor.end();
}

}  // namespace

double ServedShard::busy_share() const { return 1 - counters.idle_seconds / std::max(counters.seconds, 1e-9); }

void ServingCounters::describe(CounterVisitor& visitor) {
  if (shards.empty()) return;
  const CounterGroup group(visitor, "serving");
  for (ServedShard& shard : shards) describe_sums(shard, visitor);
  const auto everywhere = [](std::string_view name, std::string_view unit = {}) {
    return Counter{.name = name, .unit = unit, .shown = Shown::everywhere};
  };
  visitor.figure(everywhere("pulls"), sum(shards, &ServerCounters::pulls));
  visitor.figure(everywhere("pushes"), sum(shards, &ServerCounters::pushes));
  visitor.figure(everywhere("pulled_bytes", "bytes"), sum(shards, &ServerCounters::pulled_bytes));
  visitor.figure(everywhere("pushed_bytes", "bytes"), sum(shards, &ServerCounters::pushed_bytes));
  visitor.figure(everywhere("staleness", "updates"), staleness_of(shards));
  std::vector<double> busy;
  for (const ServedShard& shard : shards) busy.push_back(shard.busy_share());
  visitor.figure({.name = "busy", .unit = "share", .shown = Shown::in_metrics}, busy);
  for (const ServedShard& shard : shards) describe_server(shard, visitor);
  for (std::size_t worker = 0; worker < shards.front().counters.staleness.size(); ++worker) {
    visitor.begin_element("workers");
    visitor.figure({.name = "held_seconds", .unit = "seconds"}, held_seconds(shards, worker));
    visitor.figure({.name = "staleness", .unit = "updates"}, staleness_of(shards, worker));
    visitor.end();
  }
}

std::string ServingCounters::text(const CounterTerms& terms) const {
  if (shards.empty()) return "";
  const auto busiest = std::ranges::max_element(shards, {}, &ServedShard::busy_share);
  double floats = 0;
  for (const ServedShard& shard : shards) floats += static_cast<double>(shard.floats);
  const Histogram staleness = staleness_of(shards);
  std::string text = fmt::format(
      "  servers     {} with {:.1f} MB in total, {} pushes, staleness {:.2g} updates on average, at most {}; the "
      "busiest server was busy {:.0f} % of the time\n",
      shards.size(), sizeof(float) * floats * 1e-6, grouped(sum(shards, &ServerCounters::pushes)), staleness.mean(),
      staleness.largest(), 100 * busiest->busy_share());
  if (busiest->busy_share() > kBusy && !terms.relief.empty()) {
    text +=
        fmt::format("  bottleneck  server {} on rank {}: {}\n", busiest - shards.begin(), busiest->rank, terms.relief);
  }
  return text;
}

}  // namespace unisono::strategies
