#include "elastic_averaging.hpp"

#include <catch2/catch.hpp>

#include "least_squares.hpp"
#include "optimizers.hpp"
#include "small_network.hpp"

namespace unisono::strategies {
namespace {

StrategySettings elastic(std::int64_t period, double elasticity, std::int64_t servers) {
  return strategy_with({.kind = "elastic_averaging", .servers = servers},
                       ElasticSettings{.period = period, .elasticity = elasticity});
}

/// Features are zero, so that only the bias learns: the gradient is 2 (b − target).
Examples one_target(float target, std::size_t count) {
  return {.shape = {}, .features = std::vector<float>(count), .targets = std::vector<float>(count, target)};
}

}  // namespace

TEST_CASE("a worker and the center go towards each other", "[elastic]") {
  // Rate 1/4, target 8: x ← (x + 8) / 2. α = 1/4, after every second step:
  //   x = 0 → 4 → 6; distance 6: x = 4.5, center = 1.5
  //   x = 4.5 → 6.25 → 7.125; distance 5.625: x = 5.71875, center = 2.90625
  for (const int servers : {0, 1, 2}) {
    const auto ranks = train(one_target(8, 4), {.model = least_squares(),
                                                .strategy = elastic(2, 0.25, servers),
                                                .optimizer = {.kind = "sgd", .learning_rate = 0.25},
                                                .ranks = servers + 1,
                                                .batch_size = 1,
                                                .due_every = 1000});
    CHECK(ranks[0].parameters[16] == 2.90625F);
    CHECK(ranks[0].vectors.front().values.view()[16] == 5.71875F);
    CHECK(ranks_agree(ranks));
  }
}

TEST_CASE("workers keep their optimizers, and all come to the center", "[elastic]") {
  const Examples examples = small_images();
  Training training{.model = small_network(true, "local"),
                    .strategy = elastic(2, 0, 1),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.05},
                    .ranks = 4,
                    .batch_size = 6,
                    .epochs = 12,
                    .due_every = 6};
  training.optimizer = optim::with(training.optimizer, "momentum = 0.5");
  const auto ranks = train(examples, training);
  CHECK(ranks_agree(ranks));
  CHECK(ranks[0].optimizer_state.front().values.size() == ranks[1].optimizer_state.front().values.size());
  const std::vector<double> losses = losses_over_ranks(ranks);
  CHECK(losses.back() < 0.8 * losses.front());
}

TEST_CASE("a worker meets the center by its own steps, wherever ranks report", "[elastic]") {
  const Examples examples = small_images();
  Training training{.model = small_network(true, "local"),
                    .strategy = elastic(4, 0.3, 1),
                    .optimizer = {.kind = "adam", .learning_rate = 0.02},
                    .ranks = 2,
                    .batch_size = 7,
                    .epochs = 4};
  training.due_every = 1000;
  const auto rarely = train(examples, training);
  for (const std::int64_t due_every : {1, 3, 4}) {
    training.due_every = due_every;
    const auto often = train(examples, training);
    CHECK(often[0].parameters == rarely[0].parameters);
    CHECK(often[0].vectors.front().values.view()[0] == rarely[0].vectors.front().values.view()[0]);
  }
}

TEST_CASE("a run that was stopped goes on with every worker's replica", "[elastic]") {
  // One worker's run has no chance in it.
  const Examples examples = small_images();
  Training training{.model = small_network(true, "local"),
                    .strategy = elastic(2, 0.3, 1),
                    .optimizer = {.kind = "adam", .learning_rate = 0.02},
                    .ranks = 2,
                    .batch_size = 7,
                    .epochs = 4};
  training.due_every = 5;  // between two meetings
  const auto whole = train(examples, training);
  training.stop_after = 5;
  const auto stopped = train(examples, training);
  REQUIRE(stopped[0].records.back().step == 5);
  training.stop_after = 1000;
  training.resumed = &stopped;
  CHECK(train(examples, training)[0].parameters == whole[0].parameters);
}

TEST_CASE("each worker's optimizer goes on after its own steps", "[elastic]") {
  Training training{.model = small_network(true),
                    .strategy = elastic(2, 0.3, 0),
                    .optimizer = {.kind = "adam", .learning_rate = 0.02},
                    .ranks = 2,
                    .batch_size = 7,
                    .epochs = 4};
  training.due_every = 6;
  training.stop_after = 6;
  auto stopped = train(small_images(), training);
  // As if the second worker had been slower: a checkpoint has one count of the optimizer's steps.
  for (Outcome& rank : stopped) {
    rank.records.back().worker_steps = {8, 4};
    rank.optimizer_steps = 8;
  }
  training.stop_after = 1000;
  training.resumed = &stopped;
  const auto resumed = train(small_images(), training);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(resumed[rank].optimizer_steps == resumed[0].records.back().worker_steps.at(rank));
  }
}

}  // namespace unisono::strategies
