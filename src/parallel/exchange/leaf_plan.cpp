#include "exchange/leaf_plan.hpp"

#include <algorithm>

namespace unisono::parallel {
namespace {

class Planner {
 public:
  Planner(const comm::SumTree& tree, comm::Slice own, LeafPlan& plan) : tree_(tree), own_(own), plan_(plan) {}

  /// Plans that vector `target` becomes the value of a node.
  void add(comm::SumTree::Node node, int target) {
    if (node.level == 0) {
      plan_.leaves[static_cast<std::size_t>(node.number - own_.first)].target = target;
      return;
    }
    add(comm::SumTree::left(node), target);
    const comm::SumTree::Node right = comm::SumTree::right(node);
    if (tree_.is_empty(right)) return;
    const int from = plan_.held + right.level;
    plan_.vectors = std::max(plan_.vectors, from + 1);
    add(right, from);
    const auto last = static_cast<std::size_t>(tree_.leaves_of(right).last - own_.first) - 1;
    plan_.leaves[last].additions.push_back({target, from});
  }

 private:
  const comm::SumTree& tree_;
  comm::Slice own_;
  LeafPlan& plan_;
};

}  // namespace

LeafPlan plan_leaves(const comm::SumTree& tree, comm::Slice own, int held) {
  LeafPlan plan{.leaves = std::vector<LeafPlan::Leaf>(static_cast<std::size_t>(own.last - own.first)),
                .held = held,
                .vectors = held};
  const auto nodes = tree.cover(own);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Planner(tree, own, plan).add(nodes[i], comm::TreeSum::vector_of(i, nodes.size()));
  }
  return plan;
}

}  // namespace unisono::parallel
