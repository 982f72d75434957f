#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "unisono/parallel/placement.hpp"

namespace unisono::parallel {

/// `backward` is both halves of the backward pass at once: the gradients of the inputs and those of the weights.
enum class OperationKind { forward, backward, backward_inputs, backward_weights };

/// A pass of one micro-batch through one piece of the model.
struct Operation {
  OperationKind kind = OperationKind::forward;
  int chunk = 0;  ///< which of the rank's pieces
  int micro_batch = 0;
  bool operator==(const Operation&) const = default;
};

/// "forward pass of micro-batch 3 in chunk 0"
std::string text_of(const Operation& operation);

/// What the stages of a pipeline do in one step. The model is divided into stages × chunks pieces in the order of its
/// layers; piece p is chunk p / stages of stage p % stages. Without any backward pass it is a program of evaluation.
struct Program {
  int stages = 1, chunks = 1, micro_batches = 1;
  std::vector<std::vector<Operation>> ranks;  ///< the operations of each stage's rank, in order

  int pieces() const { return stages * chunks; }
  int piece_of(int stage, int chunk) const { return chunk * stages + stage; }
  int stage_of(int piece) const { return piece % stages; }
  int chunk_of(int piece) const { return piece / stages; }

  /// The piece whose output for the same micro-batch this pass needs: the one before for a forward pass, the one after
  /// for a backward pass. None for what reads inputs or labels, and for the weights' half.
  std::optional<int> source_of(int piece, OperationKind kind) const;
  /// The piece that needs what this pass puts out, if any.
  std::optional<int> target_of(int piece, OperationKind kind) const;
};

/// An operation of a program: program.ranks[stage][index].
struct OperationPlace {
  int stage = 0;
  std::size_t index = 0;
};

/// All operations in an order in which each comes after those that it needs: the ones before it in its rank's list,
/// the pass of its source, and the earlier passes of its own piece. O(operations).
/// \pre chunks and micro-batches are in range
/// \throws std::logic_error naming an operation that would wait for ever
std::vector<OperationPlace> execution_order(const Program& program);

/// Checks that each piece runs the passes of each micro-batch exactly once, in the order of the micro-batches for each
/// kind of pass (so that the gradients of weights are added in this order), and that no operation waits for ever. An
/// executor that waits for a message only where its value is consumed, and never for a send, cannot deadlock then.
/// \throws std::logic_error naming the operation that is wrong
void require_valid(const Program& program);

/// What a program's operations cost, for micro-batches of full size.
struct SimulatedCosts {
  std::vector<PassSeconds> pieces;            ///< [pieces]
  std::vector<BoundaryCost> boundaries = {};  ///< [pieces − 1], after each piece but the last; empty: free
  /// [micro-batches] the size of each as a share of the full size, e.g. of a last one that is smaller; its passes and
  /// bytes are in proportion. Empty: 1.
  std::vector<double> shares = {};
};

/// Equal stages, each divided into equal chunks; messages are free.
/// \param stage of a whole stage, all its chunks
SimulatedCosts equal_costs(int stages, int chunks, const PassSeconds& stage);

struct SimulatedStage {
  double busy = 0, idle = 0;       ///< seconds; together the length of the program. `idle` is the stage's bubble
  double bytes_sent = 0;           ///< to other stages
  int flights = 0;                 ///< the most at a time; see schedules.hpp
  std::vector<int> chunk_flights;  ///< [chunks] the most of each chunk at a time
};

/// Seconds from the start of the program.
struct SimulatedTime {
  double start = 0, end = 0;
};

struct Simulation {
  double seconds = 0;  ///< the length of the program
  std::vector<SimulatedStage> stages;
  std::vector<std::vector<SimulatedTime>> times;  ///< of each operation, as in Program::ranks
};

/// Predicts how a program runs: an operation starts when the one before it in its rank's list has ended and the message
/// that it needs has arrived. A message leaves after the end of the pass that makes it and the messages that its sender
/// has begun before, and does not delay its sender. O(operations).
/// \pre as execution_order \throws std::logic_error naming an operation that would wait for ever
Simulation simulate(const Program& program, const SimulatedCosts& costs);

}  // namespace unisono::parallel
