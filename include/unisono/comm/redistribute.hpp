#pragma once

#include "unisono/comm/communicator.hpp"
#include "unisono/tensor/reducer.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::comm {

/// A vector that is divided in one way, divided in another: `to`'s shards ← `from`'s. Collective.
///   A rank takes what it has itself from its own memory, and of each other number one copy; each pair of ranks
///   exchanges at most one message. Beside the vectors a rank needs memory for what it sends and receives.
/// \param from  equal layouts, and as many ranks as the group or fewer; the others hold nothing
/// \param given [from.local(rank).size()] what this rank holds; in plain memory, as `taken` is
/// \param taken [to.local(rank).size()] overwritten but for the floats between blocks
void redistribute(Communicator& ranks, const ShardMap& from, View given, const ShardMap& to, MutableView taken);

/// The same within one process, which holds rank `given_rank`'s and `taken_rank`'s vectors: what both hold is copied.
/// A vector that holds all of θ is what ShardMap::whole says of one rank.
void copy_common(const ShardMap& from, int given_rank, View given, const ShardMap& to, int taken_rank,
                 MutableView taken);

/// Sums over the ranks of a group; one message, however many sums there are.
class CommunicatorSquares final : public SquaresReducer {
 public:
  explicit CommunicatorSquares(Communicator& ranks) : ranks_(ranks) {}
  void sum(std::span<ExactSquares> sums) override;

 private:
  Communicator& ranks_;
};

}  // namespace unisono::comm
