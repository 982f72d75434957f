#pragma once

#include <vector>

#include "unisono/comm/sum_tree.hpp"

namespace unisono::parallel {

/// In which vectors a rank adds up the gradients of its leaves. Vector 0 is g; the next ones, up to `held`, hold the
/// rank's other subtrees; the rest hold right children until they are added to left ones, one vector for each level.
struct LeafPlan {
  struct Addition {
    int to = 0, from = 0;  ///< to += from
    bool operator==(const Addition&) const = default;
  };
  struct Leaf {
    int target = 0;                   ///< the vector that its gradient is written to
    std::vector<Addition> additions;  ///< when it is complete, in this order
  };
  std::vector<Leaf> leaves;  ///< of this rank
  int held = 1;              ///< vectors that the ranks exchange, the same on all ranks
  int vectors = 1;           ///< all of them
};

/// \param own the rank's leaves \param held TreeSum::vectors
LeafPlan plan_leaves(const comm::SumTree& tree, comm::Slice own, int held);

}  // namespace unisono::parallel
