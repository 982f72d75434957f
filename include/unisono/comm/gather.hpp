#pragma once

#include "unisono/comm/communicator.hpp"
#include "unisono/tensor/exact_sum.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono::comm {

/// whole ← the vector of which the ranks hold parts, in the vector's own layout, on every rank. Collective; each rank
/// in turn sends what it holds of the first copy to all others.
/// \param ranks all ranks that hold parts \param own [holding.size()] in plain memory, as `whole` is \param whole
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
