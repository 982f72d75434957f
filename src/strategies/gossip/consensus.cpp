#include "gossip/consensus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "step.hpp"

namespace unisono::strategies {
namespace {

constexpr Index kSumPieceFloats = Index{1} << 16;

/// mean ← Σ_r weight_r own_r / Σ_r weight_r on the trainable segments. \return bytes that were averaged
std::int64_t average(TrainContext& run, const ParameterLayout& layout, View own, MutableView mean, double weight = 1) {
  std::int64_t bytes = 0;
  run.backend.memory().copy(own, mean);
  for (const FloatRange& segment : layout.trainable()) {
    const MutableView values = part(mean, segment);
    run.communicator.allreduce_weighted_mean(values, weight);
    bytes += static_cast<std::int64_t>(values.size_bytes());
  }
  return bytes;
}

/// ‖a − b‖², in pieces.
double squared_distance(kernels::Backend& backend, View a, View b) {
  Buffer piece(std::min(std::ssize(a), kSumPieceFloats), backend.memory());
  double sum = 0;
  for (Index first = 0; first < std::ssize(a); first += kSumPieceFloats) {
    const FloatRange range{first, std::min(std::ssize(a), first + kSumPieceFloats)};
    const MutableView difference = piece.view().first(static_cast<std::size_t>(range.last - range.first));
    backend.axpby(1, part(a, range), 0, difference);
    backend.axpby(-1, part(b, range), 1, difference);
    sum += backend.squared_norm(difference);
  }
  return sum;
}

}  // namespace

TrainContext own_context(TrainContext& run) {
  TrainContext own = run;
  own.state = {run.vectors[kReplica].values.view(), run.vectors[kReplicaStatistics].values.view()};
  if (run.first_step == 0) {
    run.backend.memory().copy(run.state.parameters, own.state.parameters);
    run.backend.memory().copy(run.state.statistics, own.state.statistics);
  }
  return own;
}

void ConsensusCounters::describe(CounterVisitor& visitor) {
  averaged.describe(visitor);
  const auto square = [](std::string_view name) {
    return Counter{.name = name, .shown = Shown::everywhere, .hidden = true, .adds_up = false};
  };
  visitor.number(square("difference_squares"), difference_squares);
  visitor.number(square("mean_squares"), mean_squares);
  visitor.figure({.name = "consensus_distance", .shown = Shown::in_metrics}, distance());
}

void ConsensusCounters::describe_in_summary(CounterVisitor& visitor) const {
  visitor.figure({.name = "consensus_distance"}, distance());
}

double ConsensusCounters::distance() const {
  return mean_squares > 0 ? std::sqrt(difference_squares / mean_squares) : 0;
}

std::string gossip_text(const CounterTerms& terms, std::int64_t sent_bytes, const ConsensusCounters& consensus,
                        const std::string& exchanges) {
  return consensus.averaged.text(terms) +
         fmt::format(
             "  gossip      {:.1f} MB per epoch and rank to neighbours; ranks are {:.3g} % of the norm from their "
             "consensus; "
             "{}\n",
             terms.megabytes(sent_bytes), 100 * consensus.distance(), exchanges);
}

void form_consensus(TrainContext& run, models::ModelState own, ConsensusCounters& counters, double statistics_weight) {
  parallel::meet(run);
  const parallel::Phase phase(run, run.seconds.exposed_communication);
  const std::int64_t bytes =
      average(run, run.replica.layout(), own.parameters, run.state.parameters) +
      average(run, run.replica.statistics_layout(), own.statistics, run.state.statistics, statistics_weight);
  counters.averaged.bytes += run.communicator.size() > 1 ? bytes : 0;
  counters.difference_squares = squared_distance(run.backend, own.parameters, run.state.parameters);
  counters.mean_squares = run.backend.squared_norm(run.state.parameters);
}

std::string need_of_examples_for_statistics(const models::Model& model) {
  return model.statistics_layout().size() > 0 ? "never change their running statistics" : "";
}

}  // namespace unisono::strategies
