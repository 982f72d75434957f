#pragma once

#include <cstdint>
#include <functional>

#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::experiment {

/// While one lives, SIGTERM, SIGINT and SIGUSR1 mean the wish to stop. A second SIGTERM or SIGINT, a quarter of a
/// second or more after the first, ends the process at once. Several, of ranks that are threads, see the same signals.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal that came since hold_stop_signals, or else since the first of these began; 0: none.
  int received() const;
};

/// Why a run is to stop. The ranks agree on the largest.
enum class StopWish : std::int64_t { none, asked, signal };

/// The ranks' agreement on stopping: they compare their wishes at steps that all of them know beforehand, some 50 ms
/// apart, so that steps are not delayed by it. Cost: one allreduce of 16 bytes each time.
class StopAgreement {
 public:
  /// \param wish of this rank
  StopAgreement(comm::Communicator& group, std::function<StopWish()> wish, std::int64_t first_step,
                const Clock& clock = steady_clock());

  /// Collective, though mostly without a message. \return any rank's wish; the same on every rank
  StopWish agreed(std::int64_t step);
  /// The first step at which they compare their wishes next, which all ranks know.
  std::int64_t next_step() const { return next_step_; }

 private:
  comm::Communicator& group_;
  std::function<StopWish()> wish_;
  std::int64_t last_step_, next_step_;
  Stopwatch since_last_;
};

}  // namespace unisono::experiment
