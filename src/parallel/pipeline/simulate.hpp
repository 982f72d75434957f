#pragma once

#include <vector>

#include "pipeline/program.hpp"
#include "unisono/parallel/pipeline_costs.hpp"

namespace unisono::parallel {

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
  int flights = 0;                 ///< the most at a time; see flights.hpp
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
/// that it needs has arrived. A message leaves at the end of the pass that makes it and delays neither its sender nor
/// other messages. O(operations).
/// \pre as execution_order \throws std::logic_error naming an operation that would wait for ever
Simulation simulate(const Program& program, const SimulatedCosts& costs);

}  // namespace unisono::parallel
