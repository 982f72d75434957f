#pragma once

#include <cstdint>
#include <vector>

// What parameter servers count, for the summary and for metrics.

namespace unisono::strategies {

/// How often each value ≥ 0 occurred; values above kLargest count as kLargest.
struct Histogram {
  static constexpr std::int64_t kLargest = 1023;
  std::vector<std::int64_t> counts;

  void add(std::int64_t value);
  Histogram& operator+=(const Histogram& more);
  std::int64_t total() const;
  double mean() const;
  std::int64_t largest() const;  ///< the largest value that occurred; 0 if none did
};

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
  int server = 0, rank = 0;
  std::int64_t floats = 0;
  ServerCounters counters;
};

}  // namespace unisono::strategies
