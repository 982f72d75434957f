#pragma once

#include <cstdint>
#include <functional>

#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::session {

/// While an object exists, SIGTERM, SIGINT and SIGUSR1 are recorded as requests to stop. A second SIGTERM or SIGINT, at
/// least a quarter of a second after the first, ends the process at once. If ranks are threads, each has an object, and
/// all see the same signals.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal since hold_stop_signals or, without that, since the first object was made; 0: none.
  int received() const;
};

/// Why a run should stop, if at all. The ranks agree on the largest value.
enum class StopWish : std::int64_t { none, asked, signal };

/// Lets the ranks agree on stopping: they compare their wishes at steps that all know in advance, about 50 ms apart (at
/// first less), so that not every step pays for it. At the same steps they agree whether one of them wants a
/// checkpoint. Cost: one allreduce of 24 bytes each time.
class StopAgreement {
 public:
  /// \param wish returns this rank's wish
  /// \param checkpoint_is_due whether this rank wants a checkpoint; empty: never
  StopAgreement(comm::Communicator& group, std::function<StopWish()> wish, std::int64_t first_step,
                const Clock& clock = steady_clock(), std::function<bool()> checkpoint_is_due = {});

  /// Called after each step; collective, but usually without a message. \return the largest wish of any rank, or none
  /// between comparisons; the same on every rank
  StopWish agreed(std::int64_t step);
  /// Whether a rank wanted a checkpoint when `agreed` was last called; the same on every rank.
  bool wants_checkpoint() const { return wants_checkpoint_; }
  /// The step of the next comparison; the same on every rank.
  std::int64_t next_step() const { return next_step_; }

 private:
  comm::Communicator& group_;
  std::function<StopWish()> wish_;
  std::function<bool()> checkpoint_is_due_;
  bool wants_checkpoint_ = false;
  std::int64_t last_step_, next_step_;
  Stopwatch since_last_;
};

}  // namespace unisono::session
