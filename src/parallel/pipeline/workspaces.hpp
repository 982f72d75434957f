#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "unisono/nn/piece.hpp"

namespace unisono::parallel {

/// The memory of a stage's flights: a workspace for each micro-batch that is in one of its pieces. Memory is reused,
/// and grows to what the most flights at a time need.
class Workspaces {
 public:
  /// \param memory the backend's
  explicit Workspaces(Allocator& memory) : memory_(memory) {}

  /// The workspace of a new flight.
  /// \param owner the piece's number in the network
  nn::Workspace begin(int owner, int micro_batch, const nn::Piece& piece, Index examples, nn::PassKind kind);
  /// That of a flight which has begun.
  nn::Workspace of(int owner, int micro_batch);
  /// The flight is over.
  void end(int owner, int micro_batch);

  Index floats() const;  ///< of all the memory

 private:
  struct Flight {
    const nn::WorkspacePlan* plan;
    Buffer memory;
  };

  Allocator& memory_;
  std::map<std::tuple<int, Index, nn::PassKind>, nn::WorkspacePlan> plans_;  ///< by (piece, examples, kind)
  std::map<std::pair<int, int>, Flight> flights_;                            ///< by (piece, micro-batch)
  std::map<int, std::vector<Buffer>> free_;                                  ///< by piece
};

}  // namespace unisono::parallel
