#pragma once

#include <algorithm>
#include <cstdint>

namespace unisono::strategies {

/// Steps of the run between two points at which all ranks synchronise.
struct Segment {
  std::int64_t first = 0, last = 0;  ///< of the run's steps
  int active = 1;                    ///< workers 0 … active − 1 take part
  /// Steps of each active worker. Asynchronous workers make active · steps together, and who asks first makes more.
  std::int64_t steps = 0;

  /// The run's step, for the learning-rate schedule, that corresponds to a worker's step number `clock` in this
  /// segment.
  std::int64_t step_at(std::int64_t clock) const {
    return first + std::min(clock * (last - first) / steps, last - first - 1);
  }
};

}  // namespace unisono::strategies
