#pragma once

#include <vector>

#include "unisono/comm/communicator.hpp"

namespace unisono::comm {

/// The order in which vectors are added so that the sum has the same bits whoever adds them: a binary tree over a fixed
/// number of leaves. Node j of level k is the sum of the leaves [j·2ᵏ, (j + 1)·2ᵏ), as far as there are so many:
///     value(k, j) = value(k − 1, 2j) + value(k − 1, 2j + 1), or value(k − 1, 2j) where the second has no leaves
/// The root is the node 0 of the level at which one node has all leaves. A rank that holds consecutive leaves adds up
/// the fewest nodes that cover them; the ranks together add up the rest of the tree.
class SumTree {
 public:
  struct Node {
    int level = 0, number = 0;
    bool operator==(const Node&) const = default;
  };

  explicit SumTree(int leaves) : leaves_(leaves) {}

  int leaves() const { return leaves_; }
  Node root() const;
  Slice leaves_of(Node node) const;
  /// The largest node with the same leaves as `node`.
  Node largest(Node node) const;
  /// The fewest nodes whose leaves are [leaves.first, leaves.last), in order. At most 2 ⌈log₂ leaves()⌉.
  std::vector<Node> cover(Slice leaves) const;

  static Node left(Node node) { return {node.level - 1, 2 * node.number}; }
  static Node right(Node node) { return {node.level - 1, 2 * node.number + 1}; }
  bool is_empty(Node node) const { return leaves_of(node).first >= leaves_; }

 private:
  int leaves_;
};

/// How the nodes that the ranks hold add up to the root.
struct TreeSum {
  /// A node that rank `rank` holds in its vector number `vector`.
  struct Input {
    int rank = 0, vector = 0;
    bool operator==(const Input&) const = default;
  };
  static constexpr int kAdd = -1;

  std::vector<Input> inputs;  ///< in the order of their leaves
  /// In postfix notation: the number of an input, or kAdd for the sum of the last two values.
  std::vector<int> program;
  int vectors = 1;  ///< the most vectors that a rank holds

  /// For ranks of which each holds the nodes that cover its consecutive leaves: node i of a rank in its vector i + 1,
  /// but the last one in vector 0. \param leaves [ranks] together all leaves of the tree; a rank may have none
  TreeSum(const SumTree& tree, const std::vector<Slice>& leaves);
  /// For ranks that hold any nodes, rank r node nodes[r][i] in its vector i: where several nodes have a leaf, the
  /// largest one counts, and of equal ones that of the lowest rank. (Nodes of a tree are either disjoint or one is
  /// within the other, so those that count are disjoint.)
  /// \param nodes [ranks] each the largest with its leaves; together they have all leaves
  TreeSum(const SumTree& tree, const std::vector<std::vector<SumTree::Node>>& nodes);
  TreeSum() = default;
  /// The number of the vector in which a rank holds node `node` of the `nodes` that cover its leaves.
  static int vector_of(std::size_t node, std::size_t nodes) {
    return node + 1 == nodes ? 0 : static_cast<int>(node) + 1;
  }
};

/// A TreeSum in two steps, for ranks in groups (nodes): each group adds up what it can, then the groups add the rest.
struct GroupedTreeSum {
  /// A sum of vectors of one group's ranks, as large a part of the tree as these have.
  struct Part {
    int group = 0;
    std::vector<TreeSum::Input> inputs;  ///< inputs of the whole sum that this part adds
    std::vector<int> program;            ///< postfix notation over `inputs`
  };
  std::vector<Part> parts;  ///< in the order of their leaves
  /// The sum of the parts: its inputs are the parts, as vector 0, 1, … of their group, which takes the place of a rank.
  TreeSum rest;

  /// Divides a sum among groups of ranks. \param group_of [ranks] the group of each rank
  GroupedTreeSum(const TreeSum& sum, const std::vector<int>& group_of);
};

}  // namespace unisono::comm
