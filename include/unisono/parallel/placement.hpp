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
/// of the most expensive piece is the least possible; of all such cuts, those with the least sum of boundaries. \param
/// costs [n] of the segments \param boundaries [n − 1] of cutting between segment i and segment i + 1 \param pieces
/// from 1 to n, none of them empty \return [pieces + 1] 0, …, n O(pieces · n²) additions.
std::vector<int> balanced_cuts(std::span<const double> costs, std::span<const Index> boundaries, int pieces);

/// What each stage of a pipeline holds: one or several pieces of a network, with their parts of θ and of the running
/// statistics. Pieces are numbered in the order of the layers; piece p is chunk p / stages of stage p mod stages.
class Stages {
 public:
  /// The pieces begin with the layers of settings.placement or, where it names none, have about equally many flops.
  /// \param model must outlive the object
  /// \throws ConfigError where the network cannot be cut so
  Stages(const models::Staged& model, const ReplicaSettings& settings, int replicas);

  int stages() const { return stages_; }
  int chunks() const { return pieces() / stages_; }
  int replicas() const { return parameters_.copies(); }
  int pieces() const { return static_cast<int>(pieces_.size()); }
  int stage_of(int piece) const { return piece % stages_; }
  int piece_of(int stage, int chunk) const { return chunk * stages_ + stage; }

  /// Piece p lies between cut points cuts()[p] and cuts()[p + 1], in the numbers of Network::piece.
  const std::vector<int>& cuts() const { return cuts_; }
  const nn::Piece& piece(int p) const { return pieces_[static_cast<std::size_t>(p)]; }
  /// "convolution1", or "residual2 to dense1".
  const std::string& layers_of(int piece) const { return names_[static_cast<std::size_t>(piece)]; }
  /// The layers of a stage: "convolution1 to relu2", or "convolution1, and dense1 to dense2" where it has several
  /// pieces.
  std::string text_of(int stage) const;
  nn::PieceCost cost_of(int stage) const;

  /// Which ranks hold which blocks. Ranks are replicas × stages, as in a process grid, and each replica has a copy.
  const ShardMap& parameters() const { return parameters_; }
  const ShardMap& statistics() const { return statistics_; }
  /// Which ranks of one replica hold which blocks of θ; its ranks are the stages.
  const ShardMap& replica_parameters() const { return replica_parameters_; }

  /// Where a piece's part of a stage's vectors begins, in floats. From there on it is laid out as in the whole vector:
  /// the piece's passes are given `vector.subspan(local_parameter(p))` as `nn::Pass::parameters`, and
  /// `first_parameter = piece(p).parameters().first`.
  Index local_parameter(int piece) const { return local_parameters_[static_cast<std::size_t>(piece)]; }
  Index local_statistic(int piece) const { return local_statistics_[static_cast<std::size_t>(piece)]; }

 private:
  int stages_;
  std::vector<int> cuts_;
  std::vector<std::string> names_;
  std::vector<nn::Piece> pieces_;
  ShardMap parameters_, statistics_, replica_parameters_;
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

/// What goes from a piece to the next for one micro-batch; the gradients that come back have the same size. Free
/// between two pieces of one rank.
struct BoundaryCost {
  double bytes = 0;
  double latency = 0;                                          ///< seconds
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes a second
};

/// Bytes that a rank needs for a piece of a network.
struct PieceMemory {
  double vectors = 0;    ///< whatever is in flight: θ, g, the optimizer's, statistics, messages
  double workspace = 0;  ///< of a flight
  double input = 0;      ///< that of them which is kept where activations are computed anew
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

/// What the activations of one piece need for one micro-batch, in floats of the backend's memory.
struct FlightMemory {
  Index workspace = 0;   ///< of a flight
  Index input = 0;       ///< where activations are computed anew, it is kept instead
  Index messages = 0;    ///< one each from and to both neighbours
  Index evaluation = 0;  ///< the workspace of a forward pass that is not for training; it reuses that of a flight
};

/// \param first, last whether it is the network's first or last piece \param evaluated examples at once in evaluations
FlightMemory memory_of(const nn::Piece& piece, bool first, bool last, PipelineSchedule schedule,
                       const kernels::Backend& backend, Index batch, Index evaluated = 0);

/// How many flights of each chunk of a stage are in memory at a time.
struct StageFlights {
  struct Chunk {
    int workspaces = 0, inputs = 0;
  };
  std::vector<Chunk> chunks;
  int most = 0;  ///< micro-batches in flight, those of each chunk counted
};

/// What a stage has in flight in the schedule's program.
StageFlights flights_of(const ReplicaSettings& settings, int stage, int micro_batches);

/// What a stage's rank needs for a step's micro-batches, in floats of the backend's memory.
struct StageMemory {
  int flights = 0;        ///< the most micro-batches at a time, those of each chunk counted
  Index activations = 0;  ///< of all flights, with their gradients and what the layers keep
  Index boundaries = 0;   ///< one message each from and to both neighbours, for each chunk

  /// \param piece one of the stage's, a chunk with these flights
  void add(const FlightMemory& piece, const StageFlights::Chunk& chunk);
};

/// \param batch examples of a micro-batch \param micro_batches of a step on this replica \param evaluated examples at
/// once in evaluations; 0: there are none
/// \pre settings are those of the stages
StageMemory memory_of(const Stages& stages, int stage, const ReplicaSettings& settings, const kernels::Backend& backend,
                      Index batch, int micro_batches, Index evaluated = 0);

}  // namespace unisono::parallel
