#pragma once

#include <cstdint>
#include <vector>

namespace unisono::strategies {

/// How often each value from 0 on was met; large ones count as the largest that is kept.
struct Histogram {
  static constexpr std::int64_t kLargest = 1023;
  std::vector<std::int64_t> counts;

  void add(std::int64_t value);
  Histogram& operator+=(const Histogram& more);
  std::int64_t total() const;
  double mean() const;
  std::int64_t largest() const;  ///< that was met; 0 where none was
};

/// What a server counts.
struct ServerCounters {
  std::int64_t pulls = 0, pushes = 0;
  std::int64_t pulled_bytes = 0, pushed_bytes = 0;
  double seconds = 0, idle_seconds = 0;  ///< since the run began; of these, waiting for messages
  std::vector<Histogram> staleness;      ///< by worker: of what it pushed, in updates of the shard
  std::vector<double> held_seconds;      ///< by worker: that its pulls waited for others' pushes
};

/// A server's part of θ, and what it counted since the run began.
struct ServedShard {
  int server = 0, rank = 0;
  std::int64_t floats = 0;
  ServerCounters counters;
};

}  // namespace unisono::strategies
