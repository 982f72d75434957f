#include "unisono/tensor/layout.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "unisono/base/errors.hpp"

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

TEST_CASE("blocks whose rows lie beside each other share one segment", "[layout]") {
  // Row i of three: four weights at 32 i, a bias at 32 i + 16, a state at 32 i + 17.
  ParameterLayout layout;
  layout.add(make_block("before", {3}));
  Block state = make_block("row.squares", {3});
  state.role = Role::state;
  CHECK(layout.add_rows({{make_block("row.weight", {3, 4}), 0}, {make_block("row.bias", {3}), 16}, {state, 17}}, 32) ==
        16);
  CHECK(layout.add(make_block("after", {1})) == 16 + 3 * 32);
  CHECK(layout.size() == 16 + 96 + 16);
  CHECK(layout.parameters() == 3 + 12 + 3 + 1);  // a state is none
  const Block &weight = layout.block("row.weight"), &bias = layout.block("row.bias");
  CHECK(weight.offset == 16);
  CHECK(bias.offset == 32);
  CHECK(layout.block("row.squares").offset == 33);
  CHECK(weight.stride == 32);
  CHECK(weight.size() == 12);
  CHECK(weight.row_size() == 4);
  CHECK(bias.row_size() == 1);
  CHECK(weight.stored_size() == 2 * 32 + 4);
  CHECK(bias.stored_size() == 2 * 32 + 1);
  CHECK(layout.block("before").stored_size() == 3);
}

TEST_CASE("rows with a stride go to canonical order and back, and touch nothing between", "[layout]") {
  ParameterLayout layout;
  layout.add_rows({{make_block("weight", {3, 4}), 0}, {make_block("bias", {3}), 5}}, 16);
  std::vector<float> vector(static_cast<std::size_t>(layout.size()), -1);
  const Block &weight = layout.block("weight"), &bias = layout.block("bias");
  from_canonical(weight, counting(12), part(MutableView(vector), weight));
  from_canonical(bias, std::vector<float>{50, 51, 52}, part(MutableView(vector), bias));
  for (std::size_t i = 0; i < vector.size(); ++i) {
    const std::size_t row = i / 16, column = i % 16;
    const float expected = column < 4    ? static_cast<float>(4 * row + column)
                           : column == 5 ? static_cast<float>(50 + row)
                                         : -1.0F;
    CHECK(vector[i] == expected);
  }
  std::vector<float> canonical(12), biases(3);
  to_canonical(weight, part(View(vector), weight), canonical);
  to_canonical(bias, part(View(vector), bias), biases);
  CHECK(canonical == counting(12));
  CHECK(biases == std::vector<float>{50, 51, 52});
}

TEST_CASE("some rows go to canonical order and back alone, however they are stored", "[layout]") {
  ParameterLayout layout;
  layout.add(make_block("by tap", {4, 3, 1, 2}, {2, 3, 0, 1}));
  layout.add(make_block("plain", {4, 6}));
  layout.add_rows({{make_block("beside", {4, 6}), 3}}, 16);
  std::vector<float> vector(static_cast<std::size_t>(layout.size()), -1);
  for (const Block& block : layout.blocks()) {
    from_canonical(block, counting(24), part(MutableView(vector), block));
    const MutableView rows = MutableView(vector).subspan(static_cast<std::size_t>(block.offset + block.row_stride()));
    std::vector<float> middle(12);  // rows 1 and 2
    to_canonical(block, rows, middle);
    CHECK(middle == std::vector<float>{6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17});

    from_canonical(block, std::vector<float>(12, 50), rows);
    std::vector<float> all(24);
    to_canonical(block, part(View(vector), block), all);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == (i / 6 % 3 == 0 ? static_cast<float>(i) : 50));
  }
}

TEST_CASE("layouts of other strides or places have other hashes", "[layout]") {
  const auto hash = [](Index stride, Index first) {
    ParameterLayout layout;
    layout.add_rows({{make_block("weight", {3, 4}), 0}, {make_block("bias", {3}), first}}, stride);
    return layout.hash();
  };
  CHECK(hash(16, 4) == hash(16, 4));
  CHECK(hash(16, 4) != hash(32, 4));
  CHECK(hash(16, 4) != hash(16, 5));
  ParameterLayout plain;
  plain.add(make_block("weight", {3, 4}));
  ParameterLayout rows;
  rows.add_rows({{make_block("weight", {3, 4}), 0}}, 16);
  CHECK(plain.hash() != rows.hash());
}

TEST_CASE("no rows take no room, and too many are refused", "[layout]") {
  ParameterLayout layout;
  CHECK(layout.add_rows({{make_block("none", {0, 4}), 0}}, 16) == 0);
  CHECK(layout.size() == 0);
  CHECK(layout.block("none").stored_size() == 0);
  CHECK_THROWS_AS(layout.add_rows({{make_block("all", {Index{1} << 45, 4}), 0}}, 16), ConfigError);
}

}  // namespace
TEST_CASE("blocks are frozen by their names and those of their layers", "[layout][freeze]") {
  ParameterLayout layout;
  for (const char* name : {"conv1.weight", "conv1.bias", "block1.conv1.weight", "dense1.weight", "dense1.bias"}) {
    layout.add(make_block(name, {20}));
  }
  const auto frozen_by = [&](const std::string& pattern) {
    ParameterLayout copy = layout;
    std::string frozen;
    const int fitting = copy.freeze(pattern);
    CHECK(fitting == std::ranges::count_if(copy.blocks(), [](const Block& block) { return block.frozen; }));
    for (const Block& block : copy.blocks()) frozen += block.frozen ? '1' : '0';
    return frozen;
  };
  CHECK(frozen_by("conv1") == "11000");
  CHECK(frozen_by("conv*") == "11000");
  CHECK(frozen_by("*conv1") == "11100");
  CHECK(frozen_by("block1") == "00100");
  CHECK(frozen_by("block1.conv1") == "00100");
  CHECK(frozen_by("*.bias") == "01001");
  CHECK(frozen_by("dense1.weight") == "00010");
  CHECK(frozen_by("dense") == "00000");
  CHECK(frozen_by("[cd]*1.bias") == "01001");
}

TEST_CASE("what training may change are the segments between frozen blocks, padding included", "[layout][freeze]") {
  ParameterLayout layout;
  for (const char* name : {"a.w", "b.w", "c.w", "d.w"}) layout.add(make_block(name, {20}));  // 32 floats each
  CHECK(layout.trainable() == std::vector<FloatRange>{{0, 128}});
  layout.freeze("c");
  CHECK(layout.trainable() == std::vector<FloatRange>{{0, 64}, {96, 128}});
  layout.freeze("a");
  CHECK(layout.trainable() == std::vector<FloatRange>{{32, 64}, {96, 128}});
  layout.freeze("*");
  CHECK(layout.trainable().empty());
  CHECK(ParameterLayout().trainable() == std::vector<FloatRange>{{0, 0}});
}

TEST_CASE("what lies between ranges", "[layout]") {
  using Ranges = std::vector<FloatRange>;
  CHECK(gaps_between({}, 10) == Ranges{{0, 10}});
  CHECK(gaps_between({}, 0).empty());
  CHECK(gaps_between({{0, 10}}, 10).empty());
  CHECK(gaps_between({{2, 4}, {4, 5}, {8, 9}}, 10) == Ranges{{0, 2}, {5, 8}, {9, 10}});
}

}  // namespace unisono
