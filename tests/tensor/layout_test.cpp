#include "unisono/tensor/layout.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace unisono {
namespace {

Block make_block(std::string name, std::vector<Index> shape, std::vector<int> axes = {}) {
  Block block;
  block.name = std::move(name);
  block.shape = std::move(shape);
  block.axes = std::move(axes);
  return block;
}

/// 0, 1, 2, …: the value of an element is its canonical position.
std::vector<float> counting(Index n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

std::vector<float> stored_order(const Block& block) {
  std::vector<float> stored(static_cast<std::size_t>(block.size()), -1);
  from_canonical(block, counting(block.size()), stored);
  return stored;
}

TEST_CASE("a block without axes is stored in canonical order", "[layout]") {
  CHECK(stored_order(make_block("bias", {5})) == counting(5));
  CHECK(stored_order(make_block("weight", {2, 3, 1, 2})) == counting(12));
}

TEST_CASE("a matrix whose axes are swapped is stored transposed", "[layout]") {
  // canonical [2, 3]: 0 1 2 / 3 4 5; stored [3, 2]: 0 3 / 1 4 / 2 5
  CHECK(stored_order(make_block("weight", {2, 3}, {1, 0})) == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("axes {2, 3, 0, 1} store a convolution's weights by tap", "[layout]") {
  // canonical [O=2, I=3, KH=1, KW=2]: element (o, i, 0, x) is number 6o + 2i + x.
  // stored [KH, KW, O, I]: x = 0 with o = 0 and o = 1, then x = 1.
  CHECK(stored_order(make_block("weight", {2, 3, 1, 2}, {2, 3, 0, 1})) ==
        std::vector<float>{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11});
}

TEST_CASE("axes {0, 2, 3, 1} store each output's weights with the channel innermost", "[layout]") {
  // canonical [O=2, C=2, H=1, W=3]: element (o, c, 0, w) is number 6o + 3c + w. stored [O, H, W, C]: o = 0, then o = 1.
  CHECK(stored_order(make_block("weight", {2, 2, 1, 3}, {0, 2, 3, 1})) ==
        std::vector<float>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11});
}

TEST_CASE("to canonical order and back is where one began, for every order of four axes", "[layout]") {
  const std::vector<Index> canonical_stride = {60, 20, 5, 1};  // of [2, 3, 4, 5]
  std::vector<int> axes = {0, 1, 2, 3};
  do {
    const Block block = make_block("weight", {2, 3, 4, 5}, axes);
    const std::vector<float> stored = stored_order(block);
    std::vector<float> canonical(stored.size(), -1);
    to_canonical(block, stored, canonical);
    CHECK(canonical == counting(block.size()));

    // The second stored element is the innermost stored axis' neighbour of the first.
    CHECK(stored.front() == 0);
    CHECK(stored[1] == static_cast<float>(canonical_stride[static_cast<std::size_t>(axes.back())]));
    CHECK(stored.back() == 119);
  } while (std::next_permutation(axes.begin(), axes.end()));
}

TEST_CASE("blocks follow each other at multiples of 16 floats", "[layout]") {
  ParameterLayout layout;
  CHECK(layout.add(make_block("a", {3, 5})) == 0);   // 15, padded to 16
  CHECK(layout.add(make_block("b", {17})) == 16);    // 17, padded to 32
  CHECK(layout.add(make_block("c", {4, 4})) == 48);  // 16: no padding
  CHECK(layout.add(make_block("d", {1})) == 64);
  CHECK(layout.size() == 80);
  CHECK(layout.parameters() == 15 + 17 + 16 + 1);
  CHECK(layout.blocks().size() == 4);
  CHECK(layout.block("c").offset == 48);
  CHECK_THROWS_AS(layout.block("e"), std::out_of_range);
}

TEST_CASE("sizes are 64 bits", "[layout]") {
  ParameterLayout layout;
  layout.add(make_block("embedding", {1'000'000, 5'000}));
  CHECK(layout.size() == 5'000'000'000);
  CHECK(layout.add(make_block("bias", {1})) == 5'000'000'000);
}

TEST_CASE("a block's part of the vector is its floats alone", "[layout]") {
  ParameterLayout layout;
  layout.add(make_block("a", {15}));
  layout.add(make_block("b", {2}));
  std::vector<float> vector = counting(layout.size());
  const View b = part(View(vector), layout.block("b"));
  CHECK(std::vector<float>(b.begin(), b.end()) == std::vector<float>{16, 17});
  part(MutableView(vector), layout.block("b"))[1] = -1;
  CHECK(vector[17] == -1);
}

TEST_CASE("the hash tells layouts apart by name, shape and order", "[layout]") {
  const auto hash = [](const std::vector<Block>& blocks) {
    ParameterLayout layout;
    for (const Block& block : blocks) layout.add(block);
    return layout.hash();
  };
  const std::uint64_t reference = hash({make_block("w", {4, 2}), make_block("b", {2})});
  CHECK(hash({make_block("w", {4, 2}), make_block("b", {2})}) == reference);
  CHECK(hash({make_block("v", {4, 2}), make_block("b", {2})}) != reference);
  CHECK(hash({make_block("w", {2, 4}), make_block("b", {2})}) != reference);
  CHECK(hash({make_block("w", {4, 2}, {1, 0}), make_block("b", {2})}) != reference);
  CHECK(hash({make_block("b", {2}), make_block("w", {4, 2})}) != reference);
  CHECK(hash({make_block("w", {4, 2})}) != reference);
}

}  // namespace
}  // namespace unisono
