// Each chunk has as many workspaces as it has flights at a time. Where activations are computed anew, a flight keeps
// only the chunk's inputs, and one workspace, large enough for any chunk, serves all backward passes.
#include "unisono/strategies/stage_memory.hpp"

#include <algorithm>

#include "pipeline/flights.hpp"
#include "pipeline/schedules.hpp"

namespace unisono::strategies {
namespace {

/// What the workspaces of a program's passes are laid out for.
nn::PassKind kind_of(const Program& program) {
  const auto is_half = [](const Operation& operation) { return operation.kind == OperationKind::backward_weights; };
  const bool halves =
      std::ranges::any_of(program.ranks, [&](const auto& list) { return std::ranges::any_of(list, is_half); });
  return halves ? nn::PassKind::halves : nn::PassKind::training;
}

/// Of what crosses a cut, as messages carry it.
Index boundary(const nn::Shape& shape, const kernels::Backend& backend, Index batch) {
  return round_up_to_line(backend.activation_size(shape.extent, batch));
}

/// The messages of a piece in one direction.
Index messages_of(const Stages& stages, int number, const kernels::Backend& backend, Index batch) {
  const nn::Piece& piece = stages.piece(number);
  const bool is_first = number == 0, is_last = number + 1 == stages.pieces();
  return (is_first ? 0 : boundary(piece.in(), backend, batch)) + (is_last ? 0 : boundary(piece.out(), backend, batch));
}

}  // namespace

StageMemory memory_of(const Stages& stages, int stage, const ReplicaSettings& settings, const kernels::Backend& backend,
                      Index batch, int micro_batches) {
  const Program program = make_program(settings.schedule, stages.stages(), stages.chunks(), micro_batches);
  StageMemory memory{.flights = peak_of_flights(program, stage)};
  Index largest = 0;
  for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
    const int number = stages.piece_of(stage, chunk);
    const nn::Piece& piece = stages.piece(number);
    const Index workspace = piece.plan(batch, kind_of(program)).floats,
                flights = peak_of_flights(program, stage, chunk);
    const Index input = boundary(piece.in(), backend, batch);
    memory.activations += flights * (settings.recompute == Recompute::all ? input : workspace);
    memory.boundaries += 2 * messages_of(stages, number, backend, batch);
    largest = std::max(largest, workspace);
  }
  if (settings.recompute == Recompute::all) memory.activations += largest;
  return memory;
}

StageMemory inference_memory_of(const Stages& stages, int stage, const kernels::Backend& backend, Index batch) {
  StageMemory memory{.flights = 1};
  for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
    const int number = stages.piece_of(stage, chunk);
    memory.activations += stages.piece(number).plan(batch, nn::PassKind::inference).floats;
    memory.boundaries += messages_of(stages, number, backend, batch);
  }
  return memory;
}

}  // namespace unisono::strategies
