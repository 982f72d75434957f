#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/counters.hpp"

namespace unisono::strategies {

/// What one server counts.
struct ServerCounters {
  std::int64_t pulls = 0, pushes = 0;
  std::int64_t pulled_bytes = 0, pushed_bytes = 0;
  double seconds = 0, idle_seconds = 0;  ///< in the serving loop, since the run began; of these, waiting for messages
  std::vector<Histogram> staleness;      ///< by worker: updates of the shard between its pull and its push
  std::vector<double> held_seconds;      ///< by worker: how long its pulls were held back until others had pushed
};

/// One server's shard of θ, and its counters since the run began.
struct ServedShard {
  std::int64_t rank = 0, floats = 0;
  ServerCounters counters;

  /// The share of the server's time in which it did not wait for messages.
  double busy_share() const;
};

/// The parameter servers of a run, by their numbers; those of other ranks are all zeros.
struct ServingCounters {
  std::vector<ServedShard> shards;

  void describe(CounterVisitor& visitor);
  /// Lines of the summary, with advice on a server that is a bottleneck.
  std::string text(const CounterTerms& terms) const;
};

}  // namespace unisono::strategies
