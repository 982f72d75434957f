#include "unisono/comm/sum_tree.hpp"

#include <algorithm>
#include <utility>

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

SumTree::Node SumTree::largest(Node node) const {
  while (node.level < root().level && node.number % 2 == 0 && is_empty({node.level, node.number + 1})) {
    node = {node.level + 1, node.number / 2};
  }
  return node;
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

TreeSum::TreeSum(const SumTree& tree, const std::vector<std::vector<SumTree::Node>>& nodes) {
  struct Held {
    SumTree::Node node;
    Input input;
  };
  std::vector<Held> held;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    vectors = std::max(vectors, static_cast<int>(nodes[rank].size()));
    for (std::size_t i = 0; i < nodes[rank].size(); ++i) {
      held.push_back({nodes[rank][i], {static_cast<int>(rank), static_cast<int>(i)}});
    }
  }
  // Larger nodes first among those that begin with the same leaf; what lies within a node then comes after it.
  std::ranges::stable_sort(held, [&](const Held& a, const Held& b) {
    const Index first_a = tree.leaves_of(a.node).first, first_b = tree.leaves_of(b.node).first;
    return first_a != first_b ? first_a < first_b : a.node.level > b.node.level;
  });
  std::vector<SumTree::Node> given;
  Index covered = 0;
  for (const Held& one : held) {
    if (tree.leaves_of(one.node).first < covered) continue;
    covered = tree.leaves_of(one.node).last;
    given.push_back(one.node);
    inputs.push_back(one.input);
  }
  Postfix(tree, given, program).append(tree.root());
}

namespace {

constexpr int kSeveral = -1;

/// Where the value that ends at a place of a postfix program begins, and which group has all of its inputs.
struct Value {
  std::size_t begin = 0;
  int group = kSeveral;
};

std::vector<Value> values_of(const TreeSum& sum, const std::vector<int>& group_of) {
  std::vector<Value> values;
  for (std::size_t end = 0; end < sum.program.size(); ++end) {
    if (sum.program[end] != TreeSum::kAdd) {
      const int rank = sum.inputs[static_cast<std::size_t>(sum.program[end])].rank;
      values.push_back({end, group_of[static_cast<std::size_t>(rank)]});
      continue;
    }
    const Value& right = values[end - 1];
    const Value& left = values[right.begin - 1];
    values.push_back({left.begin, left.group == right.group ? left.group : kSeveral});
  }
  return values;
}

/// Divides a sum into parts of one group and the rest.
class Divider {
 public:
  Divider(const TreeSum& sum, const std::vector<int>& group_of, GroupedTreeSum& grouped)
      : sum_(sum), values_(values_of(sum, group_of)), grouped_(grouped) {}

  /// The value that ends at this place of the program.
  void divide(std::size_t end) {
    const Value& value = values_[end];
    if (value.group != kSeveral) return add_part(value, end);
    divide(values_[end - 1].begin - 1);
    divide(end - 1);
    grouped_.rest.program.push_back(TreeSum::kAdd);
  }

 private:
  void add_part(const Value& value, std::size_t end) {
    GroupedTreeSum::Part part{.group = value.group, .inputs = {}, .program = {}};
    for (std::size_t i = value.begin; i <= end; ++i) {
      if (sum_.program[i] == TreeSum::kAdd) {
        part.program.push_back(TreeSum::kAdd);
        continue;
      }
      part.program.push_back(static_cast<int>(part.inputs.size()));
      part.inputs.push_back(sum_.inputs[static_cast<std::size_t>(sum_.program[i])]);
    }
    TreeSum& rest = grouped_.rest;
    const auto number = static_cast<int>(std::ranges::count(grouped_.parts, part.group, &GroupedTreeSum::Part::group));
    rest.program.push_back(static_cast<int>(rest.inputs.size()));
    rest.inputs.push_back({part.group, number});
    rest.vectors = std::max(rest.vectors, number + 1);
    grouped_.parts.push_back(std::move(part));
  }

  const TreeSum& sum_;
  std::vector<Value> values_;
  GroupedTreeSum& grouped_;
};

}  // namespace

GroupedTreeSum::GroupedTreeSum(const TreeSum& sum, const std::vector<int>& group_of) {
  Divider(sum, group_of, *this).divide(sum.program.size() - 1);
}

}  // namespace unisono::comm
