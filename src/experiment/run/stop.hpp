#pragma once

#include <cstdint>

#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::experiment {

/// While it lives, SIGTERM, SIGINT and SIGUSR1 mean the wish to stop. A second SIGTERM or SIGINT, a quarter of a second
/// or more after the first, ends the process at once. One per process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal that came since hold_stop_signals, or else since this one began; 0: none.
  int received() const;
};

/// The ranks' agreement on stopping: they compare their wishes at steps that all of them know beforehand, some 50 ms
/// apart, so that steps are not delayed by it. Cost: one allreduce of 16 bytes each time.
class StopAgreement {
 public:
  StopAgreement(comm::Communicator& world, const StopSignals& signals, std::int64_t first_step);

  /// Collective, though mostly without a message. \return a signal that any rank received, or 0; the same on every rank
  int agreed(std::int64_t step);
  /// The first step at which they compare their wishes next, which all ranks know.
  std::int64_t next_step() const { return next_step_; }

 private:
  comm::Communicator& world_;
  const StopSignals& signals_;
  std::int64_t last_step_, next_step_;
  Stopwatch since_last_;
};

}  // namespace unisono::experiment
