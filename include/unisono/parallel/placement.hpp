#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "unisono/parallel/pipeline_costs.hpp"
#include "unisono/parallel/replica_settings.hpp"

namespace unisono::parallel {

/// Bytes that a rank needs for a piece of a network.
struct PieceMemory {
  double vectors = 0;    ///< whatever is in flight: θ, g, the optimizer's, statistics, messages
  double workspace = 0;  ///< of a flight
  double input = 0;      ///< … of which it is kept instead where activations are computed anew
};

/// A network to be divided among the ranks of one replica. Its segments lie between neighbouring cut points.
struct PlacementProblem {
  ReplicaSettings settings;  ///< stages, schedule, chunks, and what may be recomputed
  int micro_batches = 1;     ///< of the replica
  /// [ranks = stages][segments] of a micro-batch
  std::vector<std::vector<PassSeconds>> seconds = {};
  std::vector<BoundaryCost> boundaries = {};                    ///< [segments − 1]
  std::function<PieceMemory(int first, int last)> memory = {};  ///< of segments [first, last)
  std::vector<double> limits = {};                              ///< [ranks] bytes
  double bytes_of_each = 0;                                     ///< that every rank needs whatever it holds
  bool any_order = false;                                       ///< whether any rank may run any stage

  int segments() const { return static_cast<int>(seconds.front().size()); }
  int stages() const { return static_cast<int>(settings.stages); }
  int chunks() const { return static_cast<int>(settings.chunks); }
  int pieces() const { return stages() * chunks(); }
};

/// Which rank runs which segments.
struct Placement {
  std::vector<int> cuts = {};   ///< [pieces + 1] piece p consists of the segments [cuts[p], cuts[p + 1])
  std::vector<int> ranks = {};  ///< [stages] the rank that runs each stage
  Recompute recompute = Recompute::none;
  double seconds = 0;              ///< of a step, simulated
  std::vector<double> bytes = {};  ///< [stages]

  /// The stage that lacks most, by so many bytes; nothing where all fit. \param limits of the ranks
  struct Lack {
    int stage = 0;
    double bytes = 0;
  };
  std::optional<Lack> lack(const std::vector<double>& limits) const;
};

/// Simulates a placement's step, and adds up its memory. \return it, with seconds and bytes
Placement priced(const PlacementProblem& problem, Placement placement);

/// The fastest placement that was found among those that fit; where none fits, the one that lacks least. A dynamic
/// programme over the cut points and, where any order is allowed, the sets of ranks that are used up, minimises
///     Σ t + (m − 1) · max t          t: the stages' seconds for a micro-batch, m: micro-batches
/// under the limits for each maximum that may be the best; the best of these are refined by moving cuts and ranks as
/// long as the simulated step becomes shorter.
Placement place(const PlacementProblem& problem);

/// How a step of a placed model goes, simulated.
struct Forecast {
  double seconds = 0;
  std::optional<double> formula = {};   ///< of equal stages with the same sum, where the schedule has one
  double bubble = 0;                    ///< share of the stages' time
  std::vector<double> busy = {};        ///< [stages] seconds
  std::vector<double> bytes_sent = {};  ///< [stages]
  std::string timeline = {};            ///< as plain text
  std::string svg = {};                 ///< as a drawing
};

/// \param columns of the timeline as text
Forecast forecast(const PlacementProblem& problem, const Placement& placement, int columns = 100);

}  // namespace unisono::parallel
