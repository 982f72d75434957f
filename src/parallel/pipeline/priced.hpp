#pragma once

#include <vector>

#include "pipeline/program.hpp"
#include "unisono/parallel/placement.hpp"

namespace unisono::parallel {

/// The prices of placements of one problem with one kind of recomputation.
class Prices {
 public:
  Prices(const PlacementProblem& problem, Recompute recompute);

  const PlacementProblem& problem() const { return problem_; }
  Recompute recompute() const { return recompute_; }
  /// Seconds of all passes of segments [first, last) on a rank, for one micro-batch.
  double seconds(int rank, int first, int last) const;
  /// Bytes of these segments as a chunk of a stage.
  double bytes(int stage, int chunk, int first, int last) const;
  /// Seconds that a lone micro-batch stays there, or on the way there, before another stage can go on: messages count,
  /// and the split-off passes for weights do not.
  double seconds_alone(int rank, int first, int last) const;
  double free_bytes(int rank) const;  ///< the limit, less what every rank needs

  SimulatedCosts costs_of(const Placement& placement) const;
  const Program& program() const { return program_; }
  /// With seconds and bytes. Infinitely many where it is not to be simulated.
  Placement priced(Placement placement) const;

 private:
  const PieceMemory& memory(int first, int last) const;

  const PlacementProblem& problem_;
  Recompute recompute_;
  Program program_;
  std::vector<StageFlights> flights_;             // [stages]
  std::vector<std::vector<PassSeconds>> before_;  // [ranks][segments + 1] sums of the segments before
  std::vector<PieceMemory> memory_;               // [(segments + 1)²] of ranges of segments
};

/// Whether a is the better placement: it lacks less, or else is faster.
struct Better {
  const PlacementProblem& problem;
  bool operator()(const Placement& a, const Placement& b) const;
};

}  // namespace unisono::parallel
