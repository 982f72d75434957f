#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "rounding.hpp"
#include "sparse_examples.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

StrategySettings divided(int threads) {
  return strategy_of(fmt::format("kind = 'feature_parallel', threads = {}", threads));
}

/// Linear models of sparse rows, plain and averaged, in mini-batches.
std::vector<InPlaceCase> linear_cases(const InPlaceMemory& memory, std::int64_t mini_batch) {
  std::vector<InPlaceCase> cases = in_place_cases(memory);
  std::erase_if(cases, [](const InPlaceCase& one) { return one.model.kind != "linear"; });
  for (InPlaceCase& one : cases) one.model.linear.mini_batch = mini_batch;
  return cases;
}

/// Sums of at most 7 terms of size < 1 in another order: some 7 u a margin, whose derivative has a slope of at most 1
/// here; 200 examples move a weight by 0.25 of that each, and their errors hardly grow.
constexpr double kLimit = 200 * 0.25 * 7 * 6e-8;
/// Sums of averaged SGD, in which each change is multiplied by the number of its update.
constexpr double kSumsLimit = 200 * kLimit;

}  // namespace

TEST_CASE("divided features give the serial run's mini-batch steps, on any number of ranks and threads",
          "[long][feature_parallel]") {
  const InPlaceMemory memory = draw_memory();
  for (const std::int64_t mini_batch : {1, 4, 32}) {
    for (const InPlaceCase& one : linear_cases(memory, mini_batch)) {
      INFO(one.name << " in mini-batches of " << mini_batch);
      const auto serial = train({}, one.training({.kind = "serial"}));
      REQUIRE(serial[0].parameters != serial[0].trajectory.front());
      for (int ranks = 1; ranks <= 4; ++ranks) {
        for (int threads = 1; threads <= 2; ++threads) {
          INFO(ranks << " ranks of " << threads << " threads");
          Training training = one.training(divided(threads));
          training.ranks = ranks;
          const auto parts = train({}, training);
          CHECK(ranks_agree(parts));
          CHECK(largest_difference(parts[0].parameters, serial[0].parameters) <=
                (one.model.linear.averaged ? kSumsLimit : kLimit));
          CHECK(largest_difference(losses_over_ranks(parts), losses_over_ranks(serial)) <= 100 * kLimit);
          CHECK(train({}, training)[0].trajectory == parts[0].trajectory);
        }
      }
    }
  }
}

TEST_CASE("… and for tables", "[feature_parallel]") {
  const Examples examples = random_examples(90, {.channels = 40}, 0);
  Training training{.model =
                        [](const models::ModelInputs& inputs, const models::ModelContext& context) {
                          models::ModelSettings settings;
                          settings.kind = "linear";
                          settings.linear.mini_batch = 8;
                          return models::make_model(settings, inputs, context);
                        },
                    .strategy = {.kind = "serial"},
                    .optimizer = {.kind = "sgd", .learning_rate = 0.01},
                    .batch_size = 25,
                    .epochs = 2};
  const auto serial = train(examples, training);
  REQUIRE(serial[0].parameters != serial[0].trajectory.front());
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int threads = 1; threads <= 2; ++threads) {
      INFO(ranks << " ranks of " << threads << " threads");
      training.strategy = divided(threads);
      training.ranks = ranks;
      const auto parts = train(examples, training);
      CHECK(ranks_agree(parts));
      // 40 terms a margin, 180 examples, a rate of 0.01.
      CHECK(largest_difference(parts[0].parameters, serial[0].parameters) <= 180 * 0.01 * 40 * 6e-8);
    }
  }
}

TEST_CASE("between records the ranks hold their own features, with the same result", "[feature_parallel]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : linear_cases(memory, 4)) {
    INFO(one.name);
    Training training = one.training(divided(2));
    training.ranks = 2;
    const auto always = train({}, training);
    training.due_every = 4;
    const auto seldom = train({}, training);
    CHECK(ranks_agree(seldom));
    CHECK(seldom[0].parameters == always[0].parameters);
    for (const StepRecord& record : seldom[0].records) {
      CHECK(record.consistent);
      CHECK((record.step % 4 == 0 || record.last_of_epoch));
    }
  }
}

TEST_CASE("a run of divided features that is stopped and resumed goes on bit for bit", "[feature_parallel]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : linear_cases(memory, 4)) {
    INFO(one.name);
    Training training = one.training(divided(2));
    training.ranks = 2;
    const auto whole = train({}, training);
    training.stop_after = 5;
    const auto stopped = train({}, training);
    REQUIRE(stopped[0].records.size() == 5);
    training.stop_after = 1000;
    training.resumed = &stopped;
    CHECK(train({}, training)[0].parameters == whole[0].parameters);
  }
}

TEST_CASE("models whose features cannot be divided are refused", "[feature_parallel]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    if (one.model.kind == "linear") continue;
    INFO(one.name);
    CHECK_THROWS_AS(train({}, one.training(divided(1))), ConfigError);
  }
  InPlaceCase softmax = in_place_cases(memory).front();
  softmax.model.linear.loss = models::LinearLoss::softmax;
  CHECK_THROWS_AS(train({}, softmax.training(divided(1))), ConfigError);
}

}  // namespace unisono::strategies
