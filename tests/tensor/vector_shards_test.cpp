#include "unisono/tensor/shard_map.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "divisions.hpp"

namespace unisono {
namespace {

TEST_CASE("pieces and shards cover a vector once, in whole cache lines", "[vector_shards]") {
  for (const Index size : {0, 1, 16, 17, 4096, 4097, 1000003}) {
    for (const int ranks : {1, 2, 3, 7, 300}) {
      const VectorShards shards(size, ranks);
      CHECK(shards.pieces() <= VectorShards::kPieces);
      Index at = 0;
      for (Index i = 0; i < shards.pieces(); ++i) {
        const FloatRange piece = shards.piece(i);
        CHECK(piece.first == at);
        CHECK(piece.first % kLineFloats == 0);
        CHECK(piece.last > piece.first);
        at = piece.last;
      }
      CHECK(at == size);
      at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        if (shards.shard_size(rank) == 0) continue;
        CHECK(shards.shard(rank).first == at);
        at = shards.shard(rank).last;
      }
      CHECK(at == size);
    }
  }
}

/// How often each number of the layout is in the parts of all ranges, read through the parts' places.
TEST_CASE("parts of ranges hold every number of every block once, where the vector has it", "[vector_shards]") {
  ParameterLayout layout = test::mixed_layout();
  // An axis with one position has the stride of its neighbour, whichever that is.
  layout.add({.name = "pixels.weight", .shape = {6, 1, 3, 28}, .axes = {0, 2, 3, 1}});
  layout.add({.name = "channels.weight", .shape = {6, 1, 3, 28}, .axes = {0, 1, 2, 3}});
  layout.add({.name = "unit.weight", .shape = {1, 2, 1, 30}, .axes = {1, 0, 3, 2}});
  std::vector<float> vector(static_cast<std::size_t>(layout.size()), -1.0F);
  // Each number gets a value of its own: block · 10000 + canonical position.
  for (std::size_t b = 0; b < layout.blocks().size(); ++b) {
    const Block& block = layout.blocks()[b];
    std::vector<float> values(static_cast<std::size_t>(block.size()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(10000 * b + i);
    from_canonical(block, values, part(MutableView(vector), block));
  }
  for (const Index step : {Index{1}, Index{7}, Index{16}, Index{48}, Index{112}, layout.size()}) {
    std::map<float, int> found;
    for (Index first = 0; first < layout.size(); first += step) {
      const FloatRange range{first, std::min(layout.size(), first + step)};
      for (const Shard& one : parts_of(whole_shards(layout), range)) {
        const Block& block = layout.blocks()[one.block];
        std::vector<float> packed(static_cast<std::size_t>(size_of(one.box)));
        pack(one.place, part(View(vector), range), packed);
        std::size_t at = 0;
        for_each_run(block, one.box, [&](Index position, Index stride, Index count) {
          for (Index i = 0; i < count; ++i, ++at) {
            CHECK(packed[at] == static_cast<float>(10000 * one.block) + static_cast<float>(position + i * stride));
            ++found[packed[at]];
          }
        });
      }
    }
    Index numbers = 0;
    for (const Block& block : layout.blocks()) numbers += block.size();
    CHECK(std::ssize(found) == numbers);
    for (const auto& [value, count] : found) CHECK(count == 1);
  }
}

}  // namespace
}  // namespace unisono
