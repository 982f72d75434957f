#include "words/windows.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "unisono/base/random.hpp"

namespace unisono::models {
namespace {

/// "110": the branches that lead to a word.
std::string code(const HuffmanTree& tree, std::int32_t word) {
  std::string branches;
  for (const float target : tree.targets(word)) branches += target == 1 ? '1' : '0';
  return branches;
}

std::vector<std::int32_t> path(const HuffmanTree& tree, std::int32_t word) {
  const auto nodes = tree.nodes(word);
  return {nodes.begin(), nodes.end()};
}

std::int64_t weighted_length(const HuffmanTree& tree, const std::vector<std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i] * static_cast<std::int64_t>(tree.nodes(static_cast<std::int32_t>(i)).size());
  }
  return sum;
}

void check_tree(const HuffmanTree& tree, std::size_t words) {
  std::set<std::string> codes;
  std::set<std::int32_t> inner;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < words; ++i) {
    const auto word = static_cast<std::int32_t>(i);
    REQUIRE(tree.nodes(word).size() == tree.targets(word).size());
    codes.insert(code(tree, word));
    longest = std::max(longest, tree.nodes(word).size());
    for (const std::int32_t node : tree.nodes(word)) {
      CHECK((node >= 0 && node + 1 < static_cast<std::int32_t>(words)));
      inner.insert(node);
    }
    // All begin at the root, the last node that was made.
    if (words > 1) CHECK(tree.nodes(word).front() == static_cast<std::int32_t>(words) - 2);
  }
  CHECK(codes.size() == words);
  for (const std::string& one : codes) {
    const auto next = codes.upper_bound(one);
    if (next != codes.end()) CHECK(next->compare(0, one.size(), one) != 0);  // no code begins another one
  }
  CHECK(inner.size() == words - 1);
  CHECK(tree.longest() == longest);
}

}  // namespace

TEST_CASE("a Huffman tree by hand", "[huffman]") {
  // a 7, b 4, c 2, d 1. Node 0: d, c (3); node 1: node 0, b (7); node 2: a, node 1 (14): of equal counts what was there
  // first is taken first. The first of two has the target 1.
  const HuffmanTree tree(std::vector<std::int64_t>{7, 4, 2, 1});
  CHECK(code(tree, 0) == "1");
  CHECK(code(tree, 1) == "00");
  CHECK(code(tree, 2) == "010");
  CHECK(code(tree, 3) == "011");
  CHECK(path(tree, 0) == std::vector<std::int32_t>{2});
  CHECK(path(tree, 1) == std::vector<std::int32_t>{2, 1});
  CHECK(path(tree, 2) == std::vector<std::int32_t>{2, 1, 0});
  CHECK(path(tree, 3) == std::vector<std::int32_t>{2, 1, 0});
  CHECK(tree.longest() == 3);
  check_tree(tree, 4);
}

TEST_CASE("codes are as short as can be, and none begins another one", "[huffman]") {
  // Cormen et al., section 15.3: 45, 13, 12, 16, 9, 5 take 224 bits.
  const std::vector<std::int64_t> textbook = {45, 13, 12, 16, 9, 5};
  const HuffmanTree tree(textbook);
  CHECK(weighted_length(tree, textbook) == 224);
  check_tree(tree, 6);

  const std::vector<std::int64_t> equal(64, 10);
  CHECK(weighted_length(HuffmanTree(equal), equal) == 64 * 10 * 6);
  std::vector<std::int64_t> doubling;
  for (int i = 20; i >= 0; --i) doubling.push_back(std::int64_t{1} << i);
  CHECK(HuffmanTree(doubling).longest() == 20);
  check_tree(HuffmanTree(doubling), 21);

  RandomStream random(1, Purpose::test);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::int64_t> counts;
    for (std::uint64_t i = 0; i < 2 + random.below(60); ++i)
      counts.push_back(static_cast<std::int64_t>(random.below(100)));
    check_tree(HuffmanTree(counts), counts.size());
  }
}

TEST_CASE("trees of no branches", "[huffman]") {
  const HuffmanTree one(std::vector<std::int64_t>{5});
  CHECK(one.nodes(0).empty());
  CHECK(one.longest() == 0);
  const HuffmanTree two(std::vector<std::int64_t>{5, 1});
  CHECK(code(two, 0) == "0");
  CHECK(code(two, 1) == "1");
  const HuffmanTree none(std::vector<std::int64_t>{});
  CHECK(none.longest() == 0);
}

}  // namespace unisono::models
