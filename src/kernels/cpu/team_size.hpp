#pragma once

#include <limits>

#include "unisono/base/clock.hpp"

namespace unisono::kernels::cpu {

/// How a loop went, from its caller's side.
struct LoopTimes {
  double seconds = 0;    ///< from its begin to its end
  double waited = 0;     ///< of these, the caller slept until helpers had done what they had taken
  double own_share = 1;  ///< of the work, that the caller did
};

/// Decides how many threads take part in loops. The caller alone would have taken about
///     Σ (seconds − waited) / own_share
/// for the loops of a window. Where that is clearly less than they took, helpers have no cores of their own: they lose
/// them in the middle of what they have taken. Then only half as many threads take part, for a pause that doubles each
/// time.
class TeamSize {
 public:
  explicit TeamSize(const Clock& clock = steady_clock()) : clock_(&clock) {}

  /// How many of so many threads should take part in the next loop.
  int members(int threads);
  /// Notes a loop that several threads took part in.
  void note(const LoopTimes& loop);

  /// Whether all threads were too many several times in a row since this was last asked, in any team of this process.
  static bool was_reduced();

 private:
  static constexpr double kWindowSeconds = 0.02, kFirstPause = 0.1, kLongestPause = 5;  // 0.1, 0.2, … s
  static constexpr double kGain = 0.9;  // of the time, at most, that the caller alone would take
  static constexpr int kWindowLoops = 16, kFailuresInARow = 3;
  static constexpr int kAll = std::numeric_limits<int>::max();

  void judge();

  const Clock* clock_;
  int most_ = kAll;   ///< threads that take part now
  int last_ = 1;      ///< that took part in the last loop
  double until_ = 0;  ///< when all may take part again
  double pause_ = kFirstPause;
  int failures_ = 0;  ///< times in a row that all threads were too many

  struct Window {
    int loops = 0;
    double seconds = 0, alone = 0;  ///< that they took, and that the caller alone would have taken
  } window_;
};

}  // namespace unisono::kernels::cpu
