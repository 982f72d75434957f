#include "unisono/comm/sum_tree.hpp"

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

/// What the ranks compute together.
std::string value_of(const SumTree& tree, const std::vector<Slice>& leaves) {
  const TreeSum sum(tree, leaves);
  std::vector<std::string> inputs, stack;
  for (const Slice& own : leaves) {
    for (const Node node : tree.cover(own)) inputs.push_back(value_of(tree, node));
  }
  for (const int operation : sum.program) {
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
