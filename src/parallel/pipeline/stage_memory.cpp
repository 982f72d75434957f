// Each chunk has as many workspaces as it has flights at a time. Where activations are computed anew, a flight keeps
// only the chunk's inputs between its forward and its backward pass, and workspaces serve the passes that run.
#include "unisono/parallel/stage_memory.hpp"

#include <algorithm>

#include "pipeline/flights.hpp"
#include "pipeline/schedules.hpp"

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

}  // namespace unisono::parallel
