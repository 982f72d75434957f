#pragma once

#include <cstdint>

#include "unisono/records/trial_run.hpp"

namespace unisono::jobs {

/// What a group of ranks is told when it asks for work.
struct Answer {
  enum class Kind {
    work,
    wait,  ///< nothing can start before another training has ended: ask again
    stop   ///< all has ended, or the job was asked to stop
  };
  Kind kind = Kind::wait;
  records::TrialTask task = {};  ///< of work
};

/// Hands out trainings. Its functions may be called from several threads, and never wait for a training.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  virtual Answer take() = 0;
  virtual void give(const records::TrialRun& training, const records::TrialResult& result) = 0;
  /// Notes what a training has reached so far. \param loss lower is better \return whether it should go on
  virtual bool goes_on(const records::TrialRun& training, std::int64_t epochs, double loss) = 0;
  /// Whether trainings that are running must stop now.
  virtual bool wants_stop() = 0;
  /// No other training starts, and those that are running stop.
  virtual void request_stop() = 0;
};

}  // namespace unisono::jobs
