#pragma once

#include "unisono/base/clock.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::parallel {

/// Adds the duration of its scope to one member of Seconds. Time spent waiting for a device (whose kernels run
/// asynchronously) is added to `compute` instead, wherever the wait happens.
class Phase {
 public:
  /// \param part the member of `all` to add to
  Phase(const kernels::Backend& backend, Seconds& all, double& part, const Clock& clock = steady_clock())
      : backend_(backend), all_(all), part_(part), waited_before_(backend.waited_seconds()), watch_(clock) {}
  Phase(const StepTerms& run, double& part) : Phase(run.backend, run.seconds, part, run.clock) {}
  ~Phase() {
    const double waited = backend_.waited_seconds() - waited_before_;
    part_ += watch_.seconds() - waited;
    all_.compute += waited;
  }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  const kernels::Backend& backend_;
  Seconds& all_;
  double& part_;
  double waited_before_;
  Stopwatch watch_;
};

}  // namespace unisono::parallel
