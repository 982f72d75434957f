// Averages that are delayed by a period, and so overlapped with its steps.
//     at a boundary t:     start mean_t = Σ_r (n_r / n) θ_r,t        n_r: examples since the boundary before; n: of all
//     ranks at the next one:     θ_r ← θ_r + (mean_t − θ_r,t)              what rank r has learnt since t is kept
//   With an outer optimizer, its step from mean_t is what takes the place of mean_t. The correction is made before the
//   next average is started, so that this one begins from corrected parameters. On one rank the correction is 0, and
//   the run is the serial one bit for bit. When an average is applied depends on steps alone: the result does not
//   depend on the speed of ranks or messages.
//   Wang, Liang & Joshi, "Overlap local-SGD", ICASSP 2020, with its anchor model's pull at full strength; for outer
//   steps, Douillard et al., "Streaming DiLoCo", 2025.
// Cost per period: one allreduce of 4N bytes, which waits for nobody: n is known without a message. 4N flops in 4
// passes. Memory: two vectors, 8N bytes.
#include "averaging/delayed_average.hpp"

#include <algorithm>
#include <utility>

#include "parameter_average.hpp"
#include "unisono/parallel/phase.hpp"

namespace unisono::strategies {

DelayedAverage::DelayedAverage(TrainContext& run)
    : run_(run),
      before_(std::ssize(run.state.parameters), run.backend.memory()),
      mean_(std::ssize(run.state.parameters), run.communicator.shared_allocator()) {}

std::int64_t DelayedAverage::bytes(const models::Model& model) {
  return 2 * static_cast<std::int64_t>(sizeof(float)) * model.layout().size();
}

void DelayedAverage::start(double share) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  run_.backend.memory().copy(run_.state.parameters, before_.view());
  for (const FloatRange& segment : run_.replica.layout().trainable()) {
    const MutableView mean = part(mean_.view(), segment);
    weigh(part(View(run_.state.parameters), segment), share, mean);
    sums_.push_back(run_.communicator.start_allreduce_sum(mean));
    count_averaged(run_, mean.size_bytes());
  }
}

/// result = share · values, as Communicator::allreduce_weighted_mean does it.
void DelayedAverage::weigh(View values, double share, MutableView result) {
  if (share == 0) return run_.backend.clear(result);  // the values of a rank without examples may be NaN
  if (!run_.backend.memory().is_plain()) return run_.backend.axpby(static_cast<float>(share), values, 0, result);
  std::ranges::transform(values, result.begin(), [share](float value) { return static_cast<float>(share * value); });
}

void DelayedAverage::advance() {
  for (const comm::RequestPtr& sum : sums_) sum->test();
}

void DelayedAverage::finish(OuterStep* outer) {
  if (sums_.empty()) return;
  wait();
  if (outer != nullptr) outer->step(mean_.view());
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  for (const FloatRange& segment : run_.replica.layout().trainable()) {
    const MutableView correction = part(before_.view(), segment);
    run_.backend.axpby(1, part(View(mean_.view()), segment), -1, correction);
    run_.backend.axpby(1, correction, 1, part(run_.state.parameters, segment));
  }
}

void DelayedAverage::wait() {
  {
    const parallel::Phase phase(run_, run_.seconds.straggler_wait);
    for (const comm::RequestPtr& sum : sums_) sum->wait_for_arrivals();
  }
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  for (const comm::RequestPtr& sum : std::exchange(sums_, {})) sum->wait();
}

}  // namespace unisono::strategies
