#include "averaging.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "averaging/targets_alone.hpp"
#include "optimizers.hpp"
#include "rounding.hpp"
#include "small_network.hpp"

namespace unisono::strategies {
namespace {

StrategySettings averaging(std::int64_t period, StateAtAverage optimizer_state = StateAtAverage::average,
                           std::int64_t allreduce_epochs = 0) {
  return strategy_with(
      {.kind = "averaging"},
      AveragingSettings{.period = period, .optimizer_state = optimizer_state, .allreduce_epochs = allreduce_epochs});
}

void check_equals_allreduce(Training training) {
  const Examples examples = random_examples(23, {.channels = 3}, 0);
  const auto serial = train(examples, training);
  const double tolerance = rounding_of(serial[0], training, 3);
  CHECK(tolerance < 1e-3 * largest_difference(serial[0].trajectory.front(), serial[0].parameters));
  training.strategy = averaging(1);
  for (const int ranks : {1, 2, 3, 4}) {
    INFO(ranks << " ranks, " << training.accumulate << " micro-batches");
    training.ranks = ranks;
    const auto parallel = train(examples, training);
    CHECK(largest_difference(parallel[0].parameters, serial[0].parameters) <= tolerance);
    CHECK(ranks_agree(parallel));
  }
}

}  // namespace

TEST_CASE("averaging every step with plain SGD equals allreduce, however uneven the parts", "[averaging]") {
  for (const Index accumulate : {1, 3}) {
    check_equals_allreduce({.model = least_squares(),
                            .optimizer = {.kind = "sgd", .learning_rate = 0.0625, .weight_decay = 0.125},
                            .batch_size = 7,
                            .accumulate = accumulate,
                            .epochs = 2});
  }
}

TEST_CASE("averaging every step with momentum equals allreduce where the momentum is averaged, too", "[averaging]") {
  for (const bool nesterov : {false, true}) {
    Training training{
        .model = least_squares(), .optimizer = {.kind = "sgd", .learning_rate = 0.03125}, .batch_size = 7, .epochs = 2};
    training.optimizer =
        optim::with(training.optimizer, nesterov ? "momentum = 0.75, nesterov = true" : "momentum = 0.75");
    check_equals_allreduce(training);
  }
}

TEST_CASE("averaging every step with plain SGD equals allreduce for a network with dropout", "[averaging]") {
  const Examples examples = small_images();
  Training training{
      .model = small_network(false), .optimizer = {.kind = "sgd", .learning_rate = 0.25}, .batch_size = 7, .epochs = 2};
  const auto serial = train(examples, training);
  const Tolerance tolerance = spread_of_permuted_sums(examples, training);
  REQUIRE(tolerance.parameters < 1e-3 * largest_difference(serial[0].trajectory.front(), serial[0].parameters));
  training.strategy = averaging(1);
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    training.ranks = ranks;
    const auto parallel = train(examples, training);
    CHECK(largest_difference(parallel[0].parameters, serial[0].parameters) <= tolerance.parameters);
    CHECK(ranks_agree(parallel));
  }
}

TEST_CASE("parameters are weighted by the examples seen since the last average", "[averaging]") {
  // With rate 1/4 a step is b ← (b + mean target) / 2. Of three examples rank 0 has the first, rank 1 the other two:
  //   rank 0: 4 → 2,   8 → 5          2 examples
  //   rank 1: 3 → 3/2, 3/2 → 3/2      4 examples
  const auto outcome = train(with_targets({4, 2, 4, 8, 1, 2}), {.model = least_squares(),
                                                                .strategy = averaging(2),
                                                                .optimizer = {.kind = "sgd", .learning_rate = 0.25},
                                                                .ranks = 2,
                                                                .batch_size = 3,
                                                                .shuffle = false});
  REQUIRE(outcome[0].records.size() == 2);
  CHECK(outcome[0].trajectory[0][kBias] == 2);
  CHECK(outcome[1].trajectory[0][kBias] == 1.5F);
  CHECK(!outcome[0].records[0].consistent);
  CHECK(outcome[0].records[1].consistent);
  const double expected = (2 * 5 + 4 * 1.5) / 6;
  CHECK(outcome[0].parameters[kBias] == Approx(expected).margin(4 * 5 * kUnitRoundoff));  // four roundings
  CHECK(ranks_agree(outcome));
}

TEST_CASE("the optimizer's state is averaged, kept or reset, as the setting says", "[averaging]") {
  // Adagrad with rate 1/2 is b ← b − g / (2 √a), a the sum of squared gradients. Step 1, targets 2 and −1:
  //   g = −4 and 2, a = 16 and 4, b = 1/2 and −1/2, averaged 0. Step 2, targets 4 and 1: g = −8 and −2.
  const auto outcome_of = [](StateAtAverage optimizer_state) {
    return train(with_targets({2, -1, 4, 1}), {.model = least_squares(),
                                               .strategy = averaging(1, optimizer_state),
                                               .optimizer = {.kind = "adagrad", .learning_rate = 0.5},
                                               .ranks = 2,
                                               .batch_size = 2,
                                               .shuffle = false});
  };
  const auto mean_step = [](double a0, double a1) { return (8 / (2 * std::sqrt(a0)) + 2 / (2 * std::sqrt(a1))) / 2; };
  const auto accumulator = [](const Outcome& outcome) { return outcome.optimizer_state.at(0).values.view()[kBias]; };
  const double tolerance = 16 * kUnitRoundoff;  // a dozen operations on values of at most 1

  const auto averaged = outcome_of(StateAtAverage::average);  // a = 10 before step 2 on both ranks
  CHECK(averaged[0].parameters[kBias] == Approx(mean_step(10 + 64, 10 + 4)).margin(tolerance));
  CHECK(accumulator(averaged[0]) == 44);
  CHECK(accumulator(averaged[1]) == 44);
  CHECK(averaged[0].optimizer_steps == 2);

  const auto kept = outcome_of(StateAtAverage::keep);
  CHECK(kept[0].parameters[kBias] == Approx(mean_step(16 + 64, 4 + 4)).margin(tolerance));
  CHECK(accumulator(kept[0]) == 80);
  CHECK(accumulator(kept[1]) == 8);

  const auto reset = outcome_of(StateAtAverage::reset);
  CHECK(reset[0].parameters[kBias] == Approx(mean_step(64, 4)).margin(tolerance));
  CHECK(accumulator(reset[1]) == 0);
  CHECK(reset[1].optimizer_steps == 0);
}

TEST_CASE("a rank without examples leaves everything to the others", "[averaging]") {
  // Of one example a step rank 1 gets it; the average weighs it alone, so even Adam makes the serial run, bit for bit.
  const Examples examples = random_examples(6, {.channels = 3}, 0);
  Training training{
      .model = least_squares(0.5F), .optimizer = {.kind = "adam", .learning_rate = 0.125}, .batch_size = 1};
  const auto serial = train(examples, training);
  training.strategy = averaging(1);
  training.ranks = 2;
  const auto parallel = train(examples, training);
  CHECK(parallel[0].parameters == serial[0].parameters);
  CHECK(parallel[0].statistics == serial[0].statistics);
  CHECK(parallel[0].losses == std::vector<double>(6, 0.0));
  CHECK(parallel[0].optimizer_steps == 6);
  CHECK(parallel[1].optimizer_steps == 6);
  CHECK(ranks_agree(parallel));
}

TEST_CASE("a rank without examples in a step keeps its parameters and its state in it", "[averaging]") {
  // μ = 1/2, rate 1/4; rank 0 has one of three examples, then none of one.
  //   rank 0: target 4: v = −8, b = 2; then as it was          1 example
  //   rank 1: targets 2 and 4: v = −6, b = 3/2; target 1: v = −3 + 1 = −2, b = 2          3 examples
  Training training{.model = least_squares(),
                    .strategy = averaging(2),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.25},
                    .ranks = 2,
                    .batch_size = 3,
                    .shuffle = false};
  training.optimizer = optim::with(training.optimizer, "momentum = 0.5");
  const auto outcome = train(with_targets({4, 2, 4, 1}), training);
  REQUIRE(outcome[0].records.size() == 2);
  CHECK(outcome[0].parameters[kBias] == 2);
  CHECK(outcome[1].optimizer_state[0].values.view()[kBias] == (-8.0F + 3 * -2.0F) / 4);
}

TEST_CASE("a run stopped at an average and resumed on as many ranks goes on bit for bit", "[averaging]") {
  const Examples examples = small_images();
  for (const StateAtAverage optimizer_state : {StateAtAverage::average, StateAtAverage::keep, StateAtAverage::reset}) {
    INFO(static_cast<int>(optimizer_state));
    Training training{.model = small_network(true),
                      .strategy = averaging(3, optimizer_state, 1),
                      .optimizer = {.kind = "adam", .learning_rate = 0.02},
                      .schedule = {.kind = optim::ScheduleKind::linear},
                      .ranks = 3,
                      .batch_size = 7,
                      .epochs = 4};
    const auto whole = train(examples, training);
    for (const std::int64_t stop : {2, 4, 6, 9}) {  // in the allreduce phase, at its end, at averages
      INFO("stopped after step " << stop);
      training.stop_after = stop;
      const auto stopped = train(examples, training);
      REQUIRE(stopped[0].records.back().step == stop);
      training.stop_after = 1000;
      training.resumed = &stopped;
      const auto resumed = train(examples, training);
      training.resumed = nullptr;
      CHECK(resumed[0].parameters == whole[0].parameters);
      CHECK(resumed[1].statistics == whole[1].statistics);
    }
  }
}

TEST_CASE("on one rank averaging is the serial run, bit for bit", "[averaging]") {
  const Examples examples = small_images();
  Training training{
      .model = small_network(true, "local"), .optimizer = {.kind = "adam", .learning_rate = 0.02}, .batch_size = 7};
  const auto serial = train(examples, training);
  for (const StateAtAverage optimizer_state : {StateAtAverage::average, StateAtAverage::keep}) {
    training.strategy = averaging(2, optimizer_state);
    const auto averaged = train(examples, training);
    CHECK(averaged[0].parameters == serial[0].parameters);
    CHECK(averaged[0].statistics == serial[0].statistics);
  }
}

TEST_CASE("ranks hold one model after every period, at the end of an epoch, and at the end", "[averaging]") {
  const Examples examples = random_examples(20, {.channels = 2}, 0);
  const auto outcome = train(examples, {.model = least_squares(),
                                        .strategy = averaging(3),
                                        .optimizer = {.kind = "sgd", .learning_rate = 0.125},
                                        .ranks = 3,
                                        .batch_size = 4,
                                        .epochs = 2});
  REQUIRE(outcome[0].records.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) {
    const std::int64_t step = static_cast<std::int64_t>(i) + 1;
    INFO("step " << step);
    const bool averages = step % 3 == 0 || step % 5 == 0;
    CHECK(outcome[0].records[i].consistent == averages);
    CHECK((outcome[0].trajectory[i] == outcome[1].trajectory[i]) == averages);
    CHECK((outcome[0].trajectory[i] == outcome[2].trajectory[i]) == averages);
  }
}

TEST_CASE("a wish to stop is heard at the next average", "[averaging]") {
  const Examples examples = random_examples(20, {.channels = 2}, 0);
  const auto outcome = train(
      examples, {.model = least_squares(), .strategy = averaging(4), .ranks = 2, .batch_size = 2, .stop_after = 5});
  CHECK(outcome[0].records.size() == 8);
  CHECK(outcome[1].records.size() == 8);
  CHECK(ranks_agree(outcome));
}

TEST_CASE("running statistics are averaged with the parameters, by the examples that made them", "[averaging]") {
  // m = 1/2. Rank 0 sees 4, then 8: 2, then 5; rank 1 sees 1 and 7, then 2 and 2: 2, then 2. (2 · 5 + 4 · 2) / 6 = 3.
  const Examples examples{.shape = {}, .features = {4, 1, 7, 8, 2, 2}, .targets = {0, 0, 0, 0, 0, 0}};
  const auto outcome = train(examples, {.model = least_squares(0.5F),
                                        .strategy = averaging(2),
                                        .optimizer = {.kind = "sgd", .learning_rate = 0},
                                        .ranks = 2,
                                        .batch_size = 3,
                                        .shuffle = false});
  CHECK(outcome[0].statistics[0] == Approx(3).margin(4 * 5 * kUnitRoundoff));
  CHECK(ranks_agree(outcome));
}

TEST_CASE("post-local averaging begins with epochs of allreduce", "[averaging]") {
  const Examples examples = random_examples(22, {.channels = 2}, 0);
  Training training{.model = least_squares(),
                    .optimizer = {.kind = "adam", .learning_rate = 0.125},
                    .ranks = 3,
                    .batch_size = 7,
                    .epochs = 2};
  const auto together = train(examples, training);
  REQUIRE(together[0].records.size() == 8);

  training.strategy = averaging(2, StateAtAverage::average, 1);
  const auto post_local = train(examples, training);
  REQUIRE(post_local[0].records.size() == 8);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(post_local[1].trajectory[i] == together[1].trajectory[i]);
    CHECK(post_local[1].records[i].consistent);
  }
  CHECK(post_local[0].trajectory[4] != post_local[1].trajectory[4]);
  CHECK(!post_local[0].records[4].consistent);
  CHECK(ranks_agree(post_local));

  training.stop_after = 2;  // in the first phase: there is no second one
  CHECK(train(examples, training)[0].records.size() == 2);

  training.stop_after = 1000;
  training.strategy.own.of<AveragingSettings>().allreduce_epochs = 5;  // longer than the run
  CHECK(train(examples, training)[2].parameters == together[2].parameters);
}

}  // namespace unisono::strategies
