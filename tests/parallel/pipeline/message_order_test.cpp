// The common order of a pipeline's messages: no deadlock, however strictly they wait for each other.
#include "pipeline/schedules.hpp"

#include "all_schedules.hpp"

namespace unisono::parallel {
namespace {

/// A message as its two ends know it: the piece that makes it, whether it goes forward, its micro-batch.
struct End {
  int piece = 0;
  bool forward = true;
  int micro_batch = 0;
  bool sends = false;
  int peer = 0;
  bool meets(const End& other) const {
    return piece == other.piece && forward == other.forward && micro_batch == other.micro_batch && sends != other.sends;
  }
};

/// What a stage does with messages, in its order; nothing where it would run a pass before it starts its receive.
std::vector<End> ends_of(const Program& program, int stage) {
  const MessageOrder order = message_order(program, stage);
  const auto& operations = program.ranks[static_cast<std::size_t>(stage)];
  std::vector<End> ends;
  std::vector<bool> received(operations.size(), false);
  std::size_t started = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    for (; started < order.before[i]; ++started) {
      const std::size_t receiver = order.receives[started];
      const Operation& operation = operations[receiver];
      const int source = program.source_of(program.piece_of(stage, operation.chunk), operation.kind).value();
      ends.push_back(
          {source, operation.kind == OperationKind::forward, operation.micro_batch, false, program.stage_of(source)});
      received[receiver] = true;
    }
    const Operation& operation = operations[i];
    const int piece = program.piece_of(stage, operation.chunk);
    if (program.source_of(piece, operation.kind) && !received[i]) return {};
    if (const auto target = program.target_of(piece, operation.kind)) {
      ends.push_back(
          {piece, operation.kind == OperationKind::forward, operation.micro_batch, true, program.stage_of(*target)});
    }
  }
  return ends;
}

/// Whether all messages move where a stage starts none before the one before has moved, and computes nothing meanwhile.
bool all_move(const Program& program) {
  std::vector<std::vector<End>> ends;
  std::size_t left = 0;
  for (int stage = 0; stage < program.stages; ++stage) left += ends.emplace_back(ends_of(program, stage)).size();
  std::vector<std::size_t> next(ends.size(), 0);
  if (program.stages > 1 && left == 0) return false;
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t stage = 0; stage < ends.size(); ++stage) {
      while (next[stage] < ends[stage].size()) {
        const End& own = ends[stage][next[stage]];
        const auto peer = static_cast<std::size_t>(own.peer);
        if (peer == stage || next[peer] == ends[peer].size() || !own.meets(ends[peer][next[peer]])) break;
        ++next[stage];
        ++next[peer];
        left -= 2;
        moves = true;
      }
    }
  }
  return left == 0;
}

}  // namespace

TEST_CASE("messages in the common order never wait for each other in a circle", "[pipeline]") {
  for (const PipelineCase& one : all_pipeline_cases()) {
    const bool is_sample = one.micro_batches < 6 || one.micro_batches == 12 || one.micro_batches == 16;
    if (one.stages == 1 || !is_sample) continue;
    INFO(one.text());
    if (!all_move(one.program())) FAIL("some messages do not move");
    if (one.chunks > 1) continue;
    if (!all_move(forward_program(one.stages, one.chunks, one.micro_batches))) FAIL("in an evaluation");
  }
}

TEST_CASE("a stage starts a receive ahead of the pass before", "[pipeline]") {
  const Program program = one_forward_one_backward_program(2, 4);
  const MessageOrder last = message_order(program, 1);
  CHECK(last.receives == std::vector<std::size_t>{0, 2, 4, 6});
  CHECK(last.before == std::vector<std::size_t>{2, 2, 2, 3, 3, 4, 4, 4});
}

}  // namespace unisono::parallel
