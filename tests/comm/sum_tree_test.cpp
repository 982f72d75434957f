#include "unisono/comm/sum_tree.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "ordered_sum.hpp"

namespace unisono::comm {
namespace {

using Node = SumTree::Node;

/// The value of a node by its definition.
std::string value_of(const SumTree& tree, Node node) {
  if (node.level == 0) return std::to_string(node.number);
  const std::string left = value_of(tree, SumTree::left(node));
  if (tree.is_empty(SumTree::right(node))) return left;
  return "(" + left + "+" + value_of(tree, SumTree::right(node)) + ")";
}

/// The vectors that the ranks hold, in the order of their leaves.
std::vector<std::string> inputs_of(const SumTree& tree, const std::vector<Slice>& leaves) {
  std::vector<std::string> inputs;
  for (const Slice& own : leaves) {
    for (const Node node : tree.cover(own)) inputs.push_back(value_of(tree, node));
  }
  return inputs;
}

/// The value of a program over these inputs.
std::string value_of(const std::vector<int>& program, const std::vector<std::string>& inputs) {
  std::vector<std::string> stack;
  for (const int operation : program) {
    if (operation != TreeSum::kAdd) {
      stack.push_back(inputs.at(static_cast<std::size_t>(operation)));
      continue;
    }
    const std::string right = stack.back();
    stack.pop_back();
    stack.back() = "(" + stack.back() + "+" + right + ")";
  }
  REQUIRE(stack.size() == 1);
  return stack.front();
}

/// What the ranks compute together.
std::string value_of(const SumTree& tree, const std::vector<Slice>& leaves) {
  return value_of(TreeSum(tree, leaves).program, inputs_of(tree, leaves));
}

/// What ranks in groups compute together: each group its parts, then all the rest.
std::string value_in_groups(const SumTree& tree, const std::vector<Slice>& leaves, const std::vector<int>& group_of) {
  const TreeSum sum(tree, leaves);
  const GroupedTreeSum grouped(sum, group_of);
  const std::vector<std::string> all = inputs_of(tree, leaves);
  std::vector<std::string> parts;
  for (const GroupedTreeSum::Part& part : grouped.parts) {
    std::vector<std::string> inputs;
    for (const TreeSum::Input& input : part.inputs) {
      REQUIRE(group_of[static_cast<std::size_t>(input.rank)] == part.group);
      inputs.push_back(all[static_cast<std::size_t>(std::ranges::find(sum.inputs, input) - sum.inputs.begin())]);
    }
    parts.push_back(value_of(part.program, inputs));
    REQUIRE(grouped.rest.inputs[parts.size() - 1].rank == part.group);
  }
  return value_of(grouped.rest.program, parts);
}

}  // namespace

TEST_CASE("a tree of eight leaves, and one of five", "[sum_tree]") {
  CHECK(value_of(SumTree(8), SumTree(8).root()) == "(((0+1)+(2+3))+((4+5)+(6+7)))");
  CHECK(value_of(SumTree(5), SumTree(5).root()) == "(((0+1)+(2+3))+4)");
  CHECK(value_of(SumTree(1), SumTree(1).root()) == "0");
}

TEST_CASE("the nodes that cover a range are the fewest", "[sum_tree]") {
  CHECK(SumTree(8).cover({0, 8}) == std::vector<Node>{{3, 0}});
  CHECK(SumTree(8).cover({2, 5}) == std::vector<Node>{{1, 1}, {0, 4}});
  CHECK(SumTree(8).cover({1, 7}) == std::vector<Node>{{0, 1}, {1, 1}, {1, 2}, {0, 6}});
  CHECK(SumTree(5).cover({4, 5}) == std::vector<Node>{{2, 1}});
  CHECK(SumTree(5).cover({0, 5}) == std::vector<Node>{{3, 0}});
  CHECK(SumTree(8).cover({3, 3}).empty());
}

TEST_CASE("the ranks add in the tree's order, however many there are", "[sum_tree]") {
  for (int leaves = 1; leaves <= 20; ++leaves) {
    const SumTree tree(leaves);
    for (int ranks = 1; ranks <= 24; ++ranks) {
      std::vector<Slice> parts;
      for (int rank = 0; rank < ranks; ++rank) parts.push_back(slice_of(leaves, rank, ranks));
      INFO(leaves << " leaves, " << ranks << " ranks");
      REQUIRE(value_of(tree, parts) == value_of(tree, tree.root()));
    }
  }
}

TEST_CASE("ranks in groups add in the tree's order, too", "[sum_tree]") {
  for (const int leaves : {1, 5, 8, 13}) {
    const SumTree tree(leaves);
    for (int ranks = 1; ranks <= 12; ++ranks) {
      std::vector<Slice> parts;
      for (int rank = 0; rank < ranks; ++rank) parts.push_back(slice_of(leaves, rank, ranks));
      for (int in_group = 1; in_group <= 5; ++in_group) {
        std::vector<int> together, in_turn;  // neighbours in a group, or every so many
        for (int rank = 0; rank < ranks; ++rank) together.push_back(rank / in_group);
        for (int rank = 0; rank < ranks; ++rank) in_turn.push_back(rank % in_group);
        INFO(leaves << " leaves, " << ranks << " ranks, " << in_group << " in a group");
        REQUIRE(value_in_groups(tree, parts, together) == value_of(tree, tree.root()));
        REQUIRE(value_in_groups(tree, parts, in_turn) == value_of(tree, tree.root()));
      }
    }
  }
}

TEST_CASE("groups exchange as few sums as the tree allows", "[sum_tree]") {
  const GroupedTreeSum grouped(TreeSum(SumTree(8), {{0, 2}, {2, 4}, {4, 6}, {6, 8}}), {0, 0, 1, 1});
  CHECK(grouped.parts.size() == 2);
  CHECK(grouped.rest.inputs == std::vector<TreeSum::Input>{{0, 0}, {1, 0}});
  CHECK(grouped.rest.vectors == 1);
}

TEST_CASE("vectors are combined as the program says, to the bit", "[sum_tree]") {
  constexpr Index kSize = 1300;  // more than two pieces
  const TreeSum order(SumTree(4), {{0, 1}, {1, 4}});
  REQUIRE(order.inputs == std::vector<TreeSum::Input>{{0, 0}, {1, 1}, {1, 0}});
  std::vector<std::vector<float>> vectors(3, std::vector<float>(kSize));
  for (std::size_t v = 0; v < 3; ++v) {
    for (std::size_t i = 0; i < kSize; ++i) vectors[v][i] = std::sin(static_cast<float>(100 * v + i)) * 1e3F;
  }
  std::vector<float> expected(kSize);
  for (std::size_t i = 0; i < kSize; ++i) expected[i] = (vectors[0][i] + vectors[1][i]) + vectors[2][i];
  float* const target = vectors[1].data();  // an input, too
  combine_in_tree(std::vector<const float*>{vectors[0].data(), vectors[1].data(), vectors[2].data()}, order.program,
                  std::span(&target, 1), kSize);
  CHECK(vectors[1] == expected);
}

}  // namespace unisono::comm
