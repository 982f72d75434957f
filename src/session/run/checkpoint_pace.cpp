#include "run/checkpoint_pace.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::session {

double seconds_between_checkpoints(double cost, double between_failures) {
  if (cost >= 2 * between_failures) return between_failures;
  const double ratio = cost / (2 * between_failures);
  return std::sqrt(2 * cost * between_failures) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

void CheckpointPace::note(double spent) {
  // The last one is still being written: what it costs is known at the next one.
  if (written_ > 0) cost_ = spent / written_;
  ++written_;
  since_last_.restart();
}

double CheckpointPace::interval() const {
  if (written_ == 0) return kFirst;
  return std::max(kLeast, seconds_between_checkpoints(cost_, between_failures_));
}

}  // namespace unisono::session
