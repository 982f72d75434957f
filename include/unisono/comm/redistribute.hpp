#pragma once

#include "unisono/comm/communicator.hpp"
#include "unisono/tensor/exact_sum.hpp"
#include "unisono/tensor/holding.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::comm {

/// Redistributes a sharded vector: `to`'s shards ← `from`'s. Collective.
///   A rank copies numbers that it holds already within its own memory, and receives each other number once; each pair
///   of ranks exchanges at most one message. In addition to the vectors, a rank needs memory for what it sends and
///   receives.
/// \param from  equal layouts, and as many ranks as the group or fewer; the others hold nothing
/// \param given [from.local(rank).size()] what this rank holds; in plain memory, as `taken` is
/// \param taken [to.local(rank).size()] overwritten, except the floats between blocks
void redistribute(Communicator& ranks, const ShardMap& from, View given, const ShardMap& to, MutableView taken);

/// Copies, within one process, the numbers that are both in rank `given_rank`'s vector and in `taken_rank`'s. For a
/// vector that holds all of θ, use ShardMap::whole for one rank.
void copy_common(const ShardMap& from, int given_rank, View given, const ShardMap& to, int taken_rank,
                 MutableView taken);

/// whole ← the vector of which the ranks hold parts, in its own layout, on every rank. Collective; each rank in turn
/// sends what it holds of the first copy to all others.
/// \param ranks all that hold parts \param own [holding.size()] in plain memory, as `whole` is \param whole
/// [holding.layout().size()] overwritten, except the floats between blocks
void gather(Communicator& ranks, const Holding& holding, View own, MutableView whole);

/// The SquaresReducer over the ranks of a communicator; one allreduce, however many sums there are.
class CommunicatorSquares final : public SquaresReducer {
 public:
  explicit CommunicatorSquares(Communicator& ranks) : ranks_(ranks) {}
  void sum(std::span<ExactSquares> sums) override;
  double sum(double sum) override { return ranks_.sum(sum); }

 private:
  Communicator& ranks_;
};

}  // namespace unisono::comm
