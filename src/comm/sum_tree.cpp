#include "unisono/comm/sum_tree.hpp"

#include <algorithm>

namespace unisono::comm {

SumTree::Node SumTree::root() const {
  Node root;
  while ((1 << root.level) < leaves_) ++root.level;
  return root;
}

Slice SumTree::leaves_of(Node node) const {
  const Index size = Index{1} << node.level;
  return {std::min<Index>(leaves_, node.number * size), std::min<Index>(leaves_, (node.number + 1) * size)};
}

std::vector<SumTree::Node> SumTree::cover(Slice leaves) const {
  std::vector<Node> nodes;
  while (leaves.first < leaves.last) {
    Node node{0, static_cast<int>(leaves.first)};
    // The largest node that begins with this leaf and ends within the range.
    while (node.level < root().level && node.number % 2 == 0 &&
           leaves_of({node.level + 1, node.number / 2}).last <= leaves.last) {
      node = {node.level + 1, node.number / 2};
    }
    nodes.push_back(node);
    leaves.first = leaves_of(node).last;
  }
  return nodes;
}

namespace {

/// Appends what computes a node from the nodes that are given, in their order.
class Postfix {
 public:
  Postfix(const SumTree& tree, const std::vector<SumTree::Node>& given, std::vector<int>& program)
      : tree_(tree), given_(given), program_(program) {}

  void append(SumTree::Node node) {
    if (given_[next_] == node) {
      program_.push_back(static_cast<int>(next_++));
      return;
    }
    append(SumTree::left(node));
    if (tree_.is_empty(SumTree::right(node))) return;
    append(SumTree::right(node));
    program_.push_back(TreeSum::kAdd);
  }

 private:
  const SumTree& tree_;
  const std::vector<SumTree::Node>& given_;
  std::vector<int>& program_;
  std::size_t next_ = 0;
};

}  // namespace

TreeSum::TreeSum(const SumTree& tree, const std::vector<Slice>& leaves) {
  std::vector<SumTree::Node> given;
  for (std::size_t rank = 0; rank < leaves.size(); ++rank) {
    const std::vector<SumTree::Node> own = tree.cover(leaves[rank]);
    for (std::size_t i = 0; i < own.size(); ++i) {
      given.push_back(own[i]);
      inputs.push_back({static_cast<int>(rank), vector_of(i, own.size())});
    }
    vectors = std::max(vectors, static_cast<int>(own.size()));
  }
  Postfix(tree, given, program).append(tree.root());
}

}  // namespace unisono::comm
