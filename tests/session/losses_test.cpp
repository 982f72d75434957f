#include "unisono/session/losses.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "expect.hpp"

namespace unisono::session {
namespace {

TEST_CASE("losses of all ranks add up, counts exactly", "[losses]") {
  comm::run_as_threads(3, [](comm::Communicator& world) {
    const auto rank = world.rank();
    const kernels::LossSums sums = sum_over_ranks(world, {.loss = 0.5 * rank,
                                                          .examples = (std::int64_t{1} << 50) + rank,
                                                          .correct = rank,
                                                          .correct_top5 = 2 * rank,
                                                          .squared_error = 1,
                                                          .absolute_error = 2,
                                                          .target_sum = 3,
                                                          .target_squared_sum = 4,
                                                          .values = 10 * rank});
    EXPECT(sums.loss == 1.5);
    EXPECT(sums.examples == 3 * (std::int64_t{1} << 50) + 3);
    EXPECT(sums.correct == 3);
    EXPECT(sums.correct_top5 == 6);
    EXPECT(sums.squared_error == 3);
    EXPECT(sums.absolute_error == 6);
    EXPECT(sums.target_sum == 9);
    EXPECT(sums.target_squared_sum == 12);
    EXPECT(sums.values == 30);
  });
}

TEST_CASE("the ranks' mean seconds add up to the mean total", "[losses]") {
  comm::run_as_threads(2, [](comm::Communicator& world) {
    const parallel::Seconds own{.compute = 1.0 + world.rank(),
                                .exposed_communication = 2,
                                .straggler_wait = 0.5,
                                .bubble = 0.125,
                                .input = 0.25,
                                .optimizer = 3,
                                .evaluation = 4,
                                .checkpoint = 5,
                                .other = 1.0 - world.rank()};
    const parallel::Seconds mean = mean_over_ranks(world, own);
    EXPECT(mean.compute == 1.5);
    EXPECT(mean.other == 0.5);
    EXPECT(mean.sum() == own.sum());
    EXPECT(difference(mean, own).sum() == 0);
    EXPECT(difference(mean, own).compute == 0.5 - world.rank());
  });
}

TEST_CASE("a model is judged by its accuracy, else by its loss", "[losses]") {
  const models::Metric loss{"loss", 0.3, false}, accuracy{"accuracy", 0.9, true}, rmse{"rmse", 2, false};
  CHECK(decisive({loss, accuracy}).name == "accuracy");
  CHECK(decisive({loss, rmse}).name == "loss");
  CHECK(is_better(accuracy, 0.8));
  CHECK_FALSE(is_better(accuracy, 0.9));
  CHECK(is_better(loss, 0.4));
  CHECK_FALSE(is_better({"loss", std::numeric_limits<double>::quiet_NaN(), false}, 0.4));
}

}  // namespace
}  // namespace unisono::session
