#include <algorithm>
#include <array>
#include <utility>

#include "averaging/averages.hpp"
#include "parameter_average.hpp"
#include "unisono/parallel/phase.hpp"

namespace unisono::strategies {

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

// Averages whose ranks send compressed differences to what all of them held before, with error feedback.
//     e_r ← n_r/n (θ₀ − θ_r) + residual_r         n_r: examples of rank r since the last average; n: of all ranks
//     message_r, residual_r ← encode(e_r)
//     Δ ← Σ_r decode(message_r);  θ ← θ₀ − Δ      then comes the outer step along Δ (outer_step.cpp)
//   The residuals of an average are a part of the next one, so that no progress is lost. Biases, the parameters of
//   norms and chosen blocks are averaged as they are. On one rank nothing is compressed; what a run of more ranks has
//   left is added to Δ.
// Cost per average: as exchange/compressed_sum.cpp has it for a gradient. Memory: the residual, 4N bytes.

CompressedAverage::CompressedAverage(TrainContext& run, const parallel::CompressionSettings& settings,
                                     MutableView residual, View start)
    : run_(run),
      blocks_(parallel::divide_blocks(run.replica.layout(),
                                      parallel::blocks_to_compress(run.replica.layout(), settings.exact))),
      changes_(run, settings),
      residual_(residual),
      start_(start) {}

void CompressedAverage::average(double weight, std::int64_t step) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  if (run_.communicator.size() == 1) return take_residual();
  double all = weight;
  run_.communicator.allreduce_sum(std::span(&all, 1));
  const auto share = static_cast<float>(weight / all);
  changes_.begin_step(step);
  for (const FloatRange& range : blocks_.compressed) {
    const MutableView theta = part(run_.state.parameters, range);
    run_.backend.axpby(share, part(start_, range), -share, theta);
    changes_.sum(theta, part(residual_, range));
    run_.backend.axpby(1, part(start_, range), -1, theta);
  }
  count_averaged(run_, average_parameters(run_, run_.communicator, weight, blocks_.exact));
}

/// θ₀ − (θ₀ − θ + residual)
void CompressedAverage::take_residual() {
  run_.backend.axpby(-1, residual_, 1, run_.state.parameters);
  run_.backend.clear(residual_);
}

// Averages in two levels: often within a node, where messages are fast, and rarely between all ranks.
//     every `node_period` steps:   θ_r ← Σ_{s on the node of r} n_s θ_s / Σ_s n_s
//     every `period` steps:        θ ← Σ_r w_r θ_r / Σ_r w_r,     w_r = M n_r / N
//         n_r: examples of rank r since the last average of either kind; N: their sum over the node
//         M: examples of the node since the last average of all ranks
//   The second is the mean of the nodes' averages, each weighted by M: first within each node, then between the nodes,
//   in one allreduce. So an example counts as much as any other, whichever rank has it. Where a node had no example
//   since its own average, its ranks hold the same θ, and share M equally.
//   `node_period` = `period` is the plain average bit for bit, since then M = N and w_r = n_r.
//   Lin et al., "Don't use large mini-batches, use local SGD", ICLR 2020 (hierarchical local SGD).
// Cost: period / node_period − 1 allreduces of 4N bytes within the nodes and one of all ranks, per period.

NodeAverages::NodeAverages(comm::Communicator& ranks) : ranks_(ranks) {
  if (ranks.node_size() < ranks.size()) own_ = ranks.split(ranks.node(), ranks.rank());
}

void NodeAverages::count(Index examples) {
  since_average_ += examples;
  since_average_of_all_ += examples;
}

double NodeAverages::weight_in_node() { return static_cast<double>(std::exchange(since_average_, 0)); }

double NodeAverages::weight_of_all() {
  const auto own = static_cast<double>(std::exchange(since_average_, 0));
  std::array<double, 2> of_node = {own, static_cast<double>(std::exchange(since_average_of_all_, 0))};
  node().allreduce_sum(of_node);
  const auto [since_average, since_average_of_all] = of_node;
  if (since_average == 0) return since_average_of_all / node().size();
  return since_average_of_all * own / since_average;
}

}  // namespace unisono::strategies
