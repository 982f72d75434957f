#include "unisono/session/evaluation.hpp"

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
