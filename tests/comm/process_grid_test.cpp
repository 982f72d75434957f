#include "unisono/comm/process_grid.hpp"

#include <catch2/catch.hpp>

#include "expect.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono;
using namespace unisono::comm;
using Catch::Matchers::Contains;

TEST_CASE("ranks are numbered along the tensor axis, then along the stages, then along the data", "[grid]") {
  constexpr GridShape shape{.data = 2, .stages = 3, .tensor = 2};
  CHECK(place_of(shape, 0) == GridPlace{0, 0, 0});
  CHECK(place_of(shape, 1) == GridPlace{0, 0, 1});
  CHECK(place_of(shape, 2) == GridPlace{0, 1, 0});
  CHECK(place_of(shape, 6) == GridPlace{1, 0, 0});
  CHECK(place_of(shape, 11) == GridPlace{1, 2, 1});
  for (int rank = 0; rank < 12; ++rank) CHECK(rank_of(shape, place_of(shape, rank)) == rank);
}

TEST_CASE("the replicas of one pipeline's rank are those of equal stage and tensor part", "[grid]") {
  const auto body = [](Communicator& all) {
    const ProcessGrid grid(all, {.data = 2, .stages = 3, .tensor = 2});
    EXPECT(grid.data().sum(std::int64_t{all.rank()}) == 2 * (all.rank() % 6) + 6);
    EXPECT(grid.tensor().sum(std::int64_t{all.rank()}) == 4 * (all.rank() / 2) + 1);
    const int first = all.rank() / 6 * 6 + all.rank() % 2;  // of the pipeline's ranks, which are two apart
    EXPECT(grid.pipeline().sum(std::int64_t{all.rank()}) == 3 * first + 6);
  };
  CHECK_NOTHROW(run_as_threads(12, body));
}

TEST_CASE("a grid of replicas alone makes no groups", "[grid]") {
  const auto body = [](Communicator& all) {
    // Rank 0 goes on at once: it would wait for the others in a split.
    if (all.rank() != 0) all.barrier();
    const ProcessGrid grid(all, {.data = 3});
    EXPECT(&grid.data() == &all);
    EXPECT(grid.pipeline().size() == 1 && grid.tensor().size() == 1);
    if (all.rank() == 0) all.barrier();
  };
  CHECK_NOTHROW(run_as_threads(3, body));
}

TEST_CASE("a grid of another number of ranks is refused with advice", "[grid]") {
  const auto make = [](const GridShape& shape) {
    return [shape](Communicator& all) { const ProcessGrid grid(all, shape); };
  };
  CHECK_THROWS_AS(run_as_threads(4, make({.data = 2, .stages = 3})), LaunchError);
  CHECK_THROWS_WITH(run_as_threads(4, make({.data = 2, .stages = 3})),
                    "a process grid of 2 × 3 × 1 ranks (data × stages × tensor) does not fit, because 4 ranks were "
                    "started; start as many ranks as their product, or choose numbers whose product is 4");
  CHECK_THROWS_WITH(run_as_threads(1, make({.tensor = 2})), Contains("because 1 rank was started"));
  CHECK_THROWS_AS(run_as_threads(4, make({.data = 2})), LaunchError);
  // Its product is 2³² · 4, which is 0 in 32 bits.
  CHECK_THROWS_AS(run_as_threads(4, make({.data = 1 << 16, .stages = 1 << 16, .tensor = 4})), LaunchError);
  CHECK_THROWS_AS(run_as_threads(2, make({.data = 2, .stages = 0})), ConfigError);
}
