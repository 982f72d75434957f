#pragma once

#include <span>
#include <string>
#include <vector>

#include "unisono/models/staged.hpp"
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

}  // namespace unisono::parallel
