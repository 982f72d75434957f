#include "cuda/ranges.hpp"

#include <catch2/catch.hpp>

namespace unisono::kernels::cuda {
namespace {

TEST_CASE("ranges are cut into chunks that cover them once", "[gpu]") {
  const std::vector<UpdateRange> ranges = {
      {0, 16, true, false}, {32, 32, false, false}, {48, 48 + 30'000, false, true}, {40'000, 40'016, true, true}};
  const RangeChunks cut(ranges);
  REQUIRE(cut.begins.size() == ranges.size() + 1);
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    std::int64_t at = ranges[r].first;
    for (std::int64_t i = cut.begins[r]; i < cut.begins[r + 1]; ++i) {
      const RangeChunk& chunk = cut.chunks[static_cast<std::size_t>(i)];
      CHECK(chunk.first == at);
      CHECK(chunk.first % 16 == 0);
      CHECK(chunk.last - chunk.first <= 1 << 13);
      CHECK(chunk.range == static_cast<std::int32_t>(r));
      CHECK(chunk.decays == (ranges[r].decays ? 1 : 0));
      at = chunk.last;
    }
    CHECK(at == ranges[r].last);
  }
  CHECK(cut.chunks.size() == 1 + 1 + 4 + 1);
}

TEST_CASE("large vectors have some thousand chunks, not more", "[gpu]") {
  const UpdateRange large{.first = 0, .last = Index{1} << 30};
  const RangeChunks cut({&large, 1});
  CHECK(cut.chunks.size() == 2048);
  CHECK(cut.chunks.back().last == large.last);
}

}  // namespace
}  // namespace unisono::kernels::cuda
