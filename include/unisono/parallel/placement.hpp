#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/kernels/backend.hpp"
#include "unisono/models/staged.hpp"
#include "unisono/nn/piece.hpp"
#include "unisono/parallel/replica.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::parallel {

/// Where to cut a sequence of segments into pieces: piece p consists of the segments [cuts[p], cuts[p + 1]). The cost
/// of the most expensive piece is the least possible; of all cuts with that cost, those with the least sum of
/// boundaries. O(pieces · n²) additions.
/// \param costs [n] costs of the segments
/// \param boundaries [n − 1] costs of cutting between segment i and segment i + 1
/// \param pieces number of pieces, from 1 to n; none of them is empty
/// \return [pieces + 1] 0, …, n
std::vector<int> balanced_cuts(std::span<const double> costs, std::span<const Index> boundaries, int pieces);

/// The models of a replica's ranks, where these share the work of layers (nn::TensorPart).
struct DividedModel {
  const models::Model& whole;
  std::vector<const models::Staged*> parts;  ///< what the ranks have of each layer
  int own = 0;                               ///< number of this rank's part
};

/// What each rank of a replica holds. Stages hold one or several pieces of a network, with their parts of θ and of the
/// running statistics. Pieces are numbered in the order of the layers; piece p is chunk p / stages of stage p mod
/// stages. Where layers are divided, the ranks that share a stage hold their parts of its pieces, and pieces, names and
/// costs are those of this rank's part.
class Stages {
 public:
  /// The pieces begin with the layers of settings.placement or, where it names none, have about equally many flops.
  /// \param model must outlive the object
  /// \throws ConfigError where the network cannot be cut so
  Stages(const models::Staged& model, const ReplicaSettings& settings, int replicas);
  /// The same where layers are divided; settings.stages may be 1. The cuts are those of the first part.
  Stages(const DividedModel& model, const ReplicaSettings& settings, int replicas);

  int stages() const { return stages_; }
  /// A rank's number among all ranks. \param stage a stage that this rank shares, or one with the same part
  int rank_of(int replica, int stage) const { return (replica * stages_ + stage) * parts_ + own_; }
  int chunks() const { return pieces() / stages_; }
  int replicas() const { return parameters_.copies(); }
  int pieces() const { return static_cast<int>(pieces_.size()); }
  int stage_of(int piece) const { return piece % stages_; }
  int piece_of(int stage, int chunk) const { return chunk * stages_ + stage; }

  /// Piece p lies between cut points cuts()[p] and cuts()[p + 1], in the numbers of Network::piece.
  const std::vector<int>& cuts() const { return cuts_; }
  const nn::Piece& piece(int p) const { return pieces_[static_cast<std::size_t>(p)]; }
  /// The layers of a piece: "convolution1", or "residual2 to dense1".
  const std::string& layers_of(int piece) const { return names_[static_cast<std::size_t>(piece)]; }
  /// The layers of a stage: "convolution1 to relu2", or "convolution1, and dense1 to dense2" where it has several
  /// pieces.
  std::string text_of(int stage) const;
  nn::PieceCost cost_of(int stage) const;

  /// Which ranks hold what of θ. Ranks are replicas × stages × parts, as in a process grid, and each replica has a
  /// copy.
  const ShardMap& parameters() const { return parameters_; }
  /// Which ranks hold what of the running statistics.
  const ShardMap& statistics() const { return statistics_; }

  /// Where a piece's part of a stage's θ begins, and of vectors that are laid out as θ, in floats. From there on it is
  /// laid out as in the whole vector: the piece's passes are given `vector.subspan(local_parameter(p))` as
  /// `nn::Pass::parameters`, and `first_parameter = piece(p).parameters().first`.
  Index local_parameter(int piece) const { return local_parameters_[static_cast<std::size_t>(piece)]; }
  /// Where a piece's part of a stage's running statistics begins, in floats.
  Index local_statistic(int piece) const { return local_statistics_[static_cast<std::size_t>(piece)]; }

 private:
  int stages_, parts_ = 1, own_ = 0;
  std::vector<int> cuts_;
  std::vector<std::string> names_;
  std::vector<nn::Piece> pieces_;
  ShardMap parameters_, statistics_;
  std::vector<Index> local_parameters_, local_statistics_;
};

/// Seconds of the passes of one micro-batch. A backward pass in one operation takes the sum of its halves. Where
/// activations are computed anew, the caller adds the forward pass to `backward_inputs`.
struct PassSeconds {
  double forward = 0, backward_inputs = 0, backward_weights = 0;
  double sum() const { return forward + backward_inputs + backward_weights; }
  PassSeconds& operator+=(const PassSeconds& more) {
    forward += more.forward;
    backward_inputs += more.backward_inputs;
    backward_weights += more.backward_weights;
    return *this;
  }
};

/// The cost of sending a piece's outputs to the next piece for one micro-batch; the gradients that come back have the
/// same size. Free between two pieces of one rank.
struct BoundaryCost {
  double bytes = 0;
  double latency = 0;                                          ///< seconds
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes a second
};

/// Bytes that a rank needs for a piece of a network.
struct PieceMemory {
  double vectors = 0;    ///< needed whatever is in flight: θ, g, the optimizer's vectors, statistics, messages
  double workspace = 0;  ///< what a flight needs
  double input = 0;      ///< the part of a flight that is kept where activations are computed anew
};

/// A network to be divided among the ranks of one replica. Its segments lie between neighbouring cut points.
struct PlacementProblem {
  ReplicaSettings settings;  ///< stages, schedule, chunks, and what may be recomputed
  int micro_batches = 1;     ///< micro-batches of the replica in a step
  /// [ranks = stages][segments] seconds of one micro-batch's passes
  std::vector<std::vector<PassSeconds>> seconds = {};
  std::vector<BoundaryCost> boundaries = {};                    ///< [segments − 1]
  std::function<PieceMemory(int first, int last)> memory = {};  ///< what a piece of segments [first, last) needs
  std::vector<double> limits = {};                              ///< [ranks] bytes that each rank may use
  double bytes_of_each = 0;                                     ///< bytes that every rank needs whatever it holds
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
  double seconds = 0;              ///< seconds of a step, simulated
  std::vector<double> bytes = {};  ///< [stages] bytes that each stage needs

  /// A stage that lacks memory, and by how many bytes.
  struct Lack {
    int stage = 0;
    double bytes = 0;
  };
  /// The stage that lacks most memory; nothing where all fit. \param limits of the ranks
  std::optional<Lack> lack(const std::vector<double>& limits) const;
};

/// Simulates a placement's step, and adds up its memory. \return the placement, with seconds and bytes
Placement priced(const PlacementProblem& problem, Placement placement);

/// The fastest placement that was found among those that fit; where none fits, the placement that lacks least. A
/// dynamic programme over the cut points and, where any order is allowed, the sets of ranks that are used up, minimises
///     Σ t + (m − 1) · max t          t: the stages' seconds for a micro-batch, m: micro-batches
/// under the limits for each maximum that may be the best; the best placements are refined by moving cuts and ranks as
/// long as the simulated step becomes shorter.
Placement place(const PlacementProblem& problem);

/// How a step of a placed model goes, simulated.
struct Forecast {
  double seconds = 0;
  /// Seconds by the schedule's formula, of equal stages with the same sum; nothing: it has none.
  std::optional<double> formula = {};
  double bubble = 0;                    ///< share of the stages' time that is idle
  std::vector<double> busy = {};        ///< [stages] seconds for which each stage computes
  std::vector<double> bytes_sent = {};  ///< [stages] bytes that each stage sends
  std::string timeline = {};            ///< the timeline of the step as plain text
  std::string svg = {};                 ///< the timeline of the step as a drawing
};

/// Simulates a step of a placed model. \param columns width of the timeline as text
Forecast forecast(const PlacementProblem& problem, const Placement& placement, int columns = 100);

/// What the activations of one piece need for one micro-batch, in floats of the backend's memory.
struct FlightMemory {
  Index workspace = 0;  ///< workspace of a flight
  Index input = 0;      ///< what is kept instead of a workspace where activations are computed anew
  Index messages = 0;   ///< one message each from and to both neighbours
  /// The workspace of a forward pass that is not for training; it reuses the workspace of a flight.
  Index evaluation = 0;
};

/// The memory of a piece's flights.
/// \param first, last whether it is the network's first or last piece \param evaluated examples at once in evaluations
FlightMemory memory_of(const nn::Piece& piece, bool first, bool last, PipelineSchedule schedule,
                       const kernels::Backend& backend, Index batch, Index evaluated = 0);

/// How many flights of each chunk of a stage are in memory at a time.
struct StageFlights {
  struct Chunk {
    int workspaces = 0, inputs = 0;
  };
  std::vector<Chunk> chunks;
  int most = 0;  ///< the most micro-batches in flight, those of each chunk counted
};

/// What a stage has in flight in the schedule's program.
StageFlights flights_of(const ReplicaSettings& settings, int stage, int micro_batches);

/// What a stage's rank needs for a step's micro-batches, in floats of the backend's memory.
struct StageMemory {
  int flights = 0;        ///< the most micro-batches in flight at a time, those of each chunk counted
  Index activations = 0;  ///< activations of all flights, with their gradients and what the layers keep
  Index boundaries = 0;   ///< one message each from and to both neighbours, for each chunk

  /// Adds a piece of the stage. \param piece the piece \param chunk how many flights of it are in memory
  void add(const FlightMemory& piece, const StageFlights::Chunk& chunk);
};

/// The memory of a stage's rank.
/// \param batch examples of a micro-batch \param micro_batches micro-batches of a step on this replica \param evaluated
/// examples at once in evaluations; 0: there are none
/// \pre settings are those of the stages
StageMemory memory_of(const Stages& stages, int stage, const ReplicaSettings& settings, const kernels::Backend& backend,
                      Index batch, int micro_batches, Index evaluated = 0);

}  // namespace unisono::parallel
