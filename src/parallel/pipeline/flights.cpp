#include "pipeline/flights.hpp"

#include <algorithm>

#include "pipeline/schedules.hpp"

namespace unisono::parallel {
namespace {

bool ends_flight(OperationKind kind) {
  return kind == OperationKind::backward || kind == OperationKind::backward_weights;
}

bool is_evaluation(const std::vector<Operation>& operations) {
  return std::none_of(operations.begin(), operations.end(), [](const auto& one) { return ends_flight(one.kind); });
}

}  // namespace

double peak_of_flights(const Program& program, int stage, std::span<const double> weights) {
  const auto& operations = program.ranks.at(static_cast<std::size_t>(stage));
  if (is_evaluation(operations)) return 0;
  double now = 0, most = 0;
  for (const Operation& operation : operations) {
    const double weight = weights[static_cast<std::size_t>(operation.chunk)];
    if (operation.kind == OperationKind::forward) now += weight;
    if (ends_flight(operation.kind)) now -= weight;
    most = std::max(most, now);
  }
  return most;
}

int peak_of_flights(const Program& program, int stage) {
  const std::vector<double> each(static_cast<std::size_t>(program.chunks), 1);
  return static_cast<int>(peak_of_flights(program, stage, each));
}

int peak_of_flights(const Program& program, int stage, int chunk) {
  std::vector<double> one(static_cast<std::size_t>(program.chunks), 0);
  one.at(static_cast<std::size_t>(chunk)) = 1;
  return static_cast<int>(peak_of_flights(program, stage, one));
}

RecomputedFlights recomputed_flights(const Program& program, int stage, int chunk) {
  RecomputedFlights most;
  int inputs = 0, workspaces = 0;
  for (const Operation& operation : program.ranks.at(static_cast<std::size_t>(stage))) {
    if (operation.chunk != chunk) continue;
    if (operation.kind == OperationKind::forward) {
      most.inputs = std::max(most.inputs, ++inputs);
      most.workspaces = std::max(most.workspaces, workspaces + 1);
    } else if (operation.kind == OperationKind::backward_weights) {
      --workspaces;
    } else {
      --inputs;
      most.workspaces = std::max(most.workspaces, workspaces + 1);
      if (operation.kind == OperationKind::backward_inputs) ++workspaces;
    }
  }
  return most;
}

std::optional<double> formula_seconds(PipelineSchedule schedule, int stages, int chunks, int micro_batches,
                                      const PassSeconds& stage) {
  const auto [f, b, w] = stage;
  const double work = micro_batches * stage.sum();
  switch (schedule) {
    case PipelineSchedule::naive:
      return stages * work;
    case PipelineSchedule::interleaved:
      if (micro_batches < stages) return {};
      return work + (stages - 1) * stage.sum() / chunks;
    case PipelineSchedule::zero_bubble:
      if (micro_batches < stages) return {};
      return work + (stages - 1) * std::max({f, b, f + b - w});
    default:
      return work + (stages - 1) * stage.sum();
  }
}

int formula_flights(PipelineSchedule schedule, int stages, int chunks, int micro_batches, int stage) {
  switch (schedule) {
    case PipelineSchedule::naive:
      return 1;
    case PipelineSchedule::gpipe:
      return micro_batches;
    case PipelineSchedule::interleaved: {
      const int group = interleaved_groups(stages, micro_batches).front();
      return std::min(chunks * micro_batches, (chunks - 1) * group + 2 * (stages - stage) - 1);
    }
    case PipelineSchedule::zero_bubble:
      return std::min(micro_batches, stages);
    default:
      return std::min(micro_batches, stages - stage);
  }
}

}  // namespace unisono::parallel
