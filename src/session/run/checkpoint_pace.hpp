#pragma once

#include "unisono/base/clock.hpp"

namespace unisono::session {

/// The seconds of training from the end of one checkpoint to the begin of the next that lose the least time to
/// checkpoints and failures together: Young, CACM 17, 1974, in the higher order of Daly, Future Generation Computer
/// Systems 22, 2006 (equation 37).
/// \param cost seconds that training stands still for a checkpoint
/// \param between_failures mean seconds from one failure to the next; they come at random
double seconds_between_checkpoints(double cost, double between_failures);

/// Says when the next checkpoint is due, from what the last ones have cost on this rank. The first one is soon, to
/// know.
class CheckpointPace {
 public:
  /// \param between_failures mean seconds from one failure to the next; 0: no checkpoint is ever due
  explicit CheckpointPace(double between_failures, const Clock& clock = steady_clock())
      : between_failures_(between_failures), since_last_(clock) {}

  bool is_due() const { return between_failures_ > 0 && since_last_.seconds() >= interval(); }
  /// Notes that a checkpoint was begun. \param spent seconds that all checkpoints so far have cost
  void note(double spent);
  /// Seconds from one checkpoint to the next; see seconds_between_checkpoints.
  double interval() const;
  /// Mean seconds that a checkpoint has cost; 0 before the first one.
  double cost() const { return cost_; }

 private:
  static constexpr double kFirst = 1;   ///< seconds until the first checkpoint
  static constexpr double kLeast = 10;  ///< seconds between later ones: writing goes on in the background for a while

  double between_failures_;
  Stopwatch since_last_;
  double cost_ = 0;
  int written_ = 0;
};

}  // namespace unisono::session
