#include <algorithm>

#include "pipeline/schedules.hpp"
#include "unisono/parallel/placement.hpp"

// Each chunk has as many workspaces as it has flights at a time. Where activations are computed anew, a flight keeps
// only the chunk's inputs between its forward and its backward pass, and workspaces serve the passes that run.
namespace unisono::parallel {
namespace {

/// Of what crosses a cut, as messages carry it.
Index boundary(const nn::Shape& shape, const kernels::Backend& backend, Index batch) {
  return round_up_to_line(backend.activation_size(shape.extent, batch));
}

}  // namespace

FlightMemory memory_of(const nn::Piece& piece, bool first, bool last, PipelineSchedule schedule,
                       const kernels::Backend& backend, Index batch, Index evaluated) {
  const bool halves = schedule == PipelineSchedule::zero_bubble;
  const Index input = boundary(piece.in(), backend, batch), output = boundary(piece.out(), backend, batch);
  return {.workspace = piece.plan(batch, halves ? nn::PassKind::halves : nn::PassKind::training).floats,
          .input = first ? batch * piece.in().extent.size() : input,
          .messages = (first ? 0 : 2 * input) + (last ? 0 : 2 * output),
          .evaluation = evaluated > 0 ? piece.plan(evaluated, nn::PassKind::inference).floats : 0};
}

StageFlights flights_of(const ReplicaSettings& settings, int stage, int micro_batches) {
  const Program program = make_program(settings.schedule, static_cast<int>(settings.stages),
                                       static_cast<int>(settings.chunks), micro_batches);
  StageFlights flights{.chunks = {}, .most = peak_of_flights(program, stage)};
  for (int chunk = 0; chunk < program.chunks; ++chunk) {
    if (settings.recompute == Recompute::all) {
      const RecomputedFlights most = recomputed_flights(program, stage, chunk);
      flights.chunks.push_back({most.workspaces, most.inputs});
    } else {
      flights.chunks.push_back({peak_of_flights(program, stage, chunk), 0});
    }
  }
  return flights;
}

void StageMemory::add(const FlightMemory& piece, const StageFlights::Chunk& chunk) {
  activations += chunk.workspaces * piece.workspace + chunk.inputs * piece.input;
  activations += std::max<Index>(0, piece.evaluation - piece.workspace);  // one of them grows
  boundaries += piece.messages;
}

StageMemory memory_of(const Stages& stages, int stage, const ReplicaSettings& settings, const kernels::Backend& backend,
                      Index batch, int micro_batches, Index evaluated) {
  const StageFlights flights = flights_of(settings, stage, micro_batches);
  StageMemory memory{.flights = flights.most};
  for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
    const int number = stages.piece_of(stage, chunk);
    memory.add(memory_of(stages.piece(number), number == 0, number + 1 == stages.pieces(), settings.schedule, backend,
                         batch, evaluated),
               flights.chunks[static_cast<std::size_t>(chunk)]);
  }
  return memory;
}

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
