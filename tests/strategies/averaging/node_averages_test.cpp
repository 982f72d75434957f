#include "averaging/averages.hpp"

#include "../rounding.hpp"
#include "same_runs.hpp"
#include "step.hpp"
#include "targets_alone.hpp"

namespace unisono::strategies {

TEST_CASE("a node_period that is the period changes nothing, bit for bit", "[averaging][nodes]") {
  for (const char* more : {"", ", outer.kind = 'nesterov'"}) {
    Training training = network_training("period = 3" + std::string(more));
    training.ranks = 4;
    training.ranks_per_node = 2;
    const auto plain = train(small_images(), training);
    training.strategy.own.of<AveragingSettings>().node_period = 3;
    const auto nodes = train(small_images(), training);
    CHECK(same_runs(nodes, plain));
    CHECK(nodes[0].counters.get<AveragedCounters>().bytes == plain[0].counters.get<AveragedCounters>().bytes);
    CHECK(nodes[0].counters.find<NodeAverageCounters>() == nullptr);
  }
}

TEST_CASE("nodes of one rank have nothing to average between averages of all", "[averaging][nodes]") {
  Training training = network_training("period = 4");
  training.ranks_per_node = 1;
  const auto plain = train(small_images(), training);
  training.strategy.own.of<AveragingSettings>().node_period = 1;
  const auto nodes = train(small_images(), training);
  CHECK(same_runs(nodes, plain));
  CHECK(nodes[0].counters.get<NodeAverageCounters>().bytes == 0);
}

TEST_CASE("all ranks on one node average every node_period steps", "[averaging][nodes]") {
  // Without an outer optimizer it does not matter which kind of average it is.
  const auto plain = train(small_images(), network_training("period = 2"));
  const auto nodes = train(small_images(), network_training("period = 4, node_period = 2"));
  CHECK(same_runs(nodes, plain));
}

TEST_CASE("averages weigh examples alike, within nodes and between them", "[averaging][nodes]") {
  // Ranks 0, 1 | 2, 3. Of 6 examples they have 1, 2 | 1, 2, of the next 5: 1, 1 | 1, 2. With b ← (b + mean target)/2:
  //   step 1: 2, 1/2 | 4, 1;   nodes: (2 + 2 · 1/2)/3 = 1 | (4 + 2 · 1)/3 = 2
  //   step 2: 4, 1 | 5, 2;     nodes, by the examples of step 2: 5/2 | (5 + 2 · 2)/3 = 3
  //   all, by the examples of both: (5 · 5/2 + 6 · 3)/11
  const Training training = [] {
    Training chosen = targets_alone("period = 2, node_period = 1", 4, 6);
    chosen.ranks_per_node = 2;
    return chosen;
  }();
  const auto outcome = train(with_targets({4, 1, 1, 8, 2, 2, 7, 1, 8, 2, 2}), training);
  const double tolerance = 8 * 8 * kUnitRoundoff;  // eight roundings of values up to 8
  REQUIRE(outcome[0].records.size() == 2);
  for (const std::size_t rank : {0, 1, 2, 3}) {
    INFO("rank " << rank);
    CHECK_FALSE(outcome[rank].records[0].consistent);
    CHECK(outcome[rank].trajectory[0][kBias] == Approx(rank < 2 ? 1 : 2).margin(tolerance));
    CHECK(outcome[rank].parameters[kBias] == Approx((5 * 2.5 + 6 * 3) / 11).margin(tolerance));
  }
  CHECK(ranks_agree(outcome));
  CHECK(outcome[0].counters.get<NodeAverageCounters>().bytes ==
        outcome[0].counters.get<AveragedCounters>().bytes);  // one of each
}

TEST_CASE("a node without examples since its average weighs as much as those before", "[averaging][nodes]") {
  // Ranks 0, 1 | 2 have an example each, 4, 8 | 2: b = 2, 4 | 1; the node's mean is 3. The next step has one example,
  // 3, on rank 2: b = 3, 3 | 2. The first node's two examples and the second's two count alike: (2 · 3 + 2 · 2)/4.
  Training training = targets_alone("period = 2, node_period = 1", 3, 3);
  training.ranks_per_node = 2;
  const auto outcome = train(with_targets({4, 8, 2, 3}), training);
  CHECK(outcome[2].trajectory.at(1)[kBias] == Approx(2.5).margin(6 * 4 * kUnitRoundoff));  // six roundings
  CHECK(ranks_agree(outcome));
}

TEST_CASE("ranks of a node hold one model after each of its averages", "[averaging][nodes]") {
  Training training = network_training("period = 4, node_period = 2");
  training.ranks = 4;
  training.ranks_per_node = 2;
  training.batch_size = 4;
  const auto outcome = train(small_images(), training);
  for (std::size_t i = 0; i < 5; ++i) {
    INFO("step " << i + 1);
    CHECK((outcome[0].trajectory[i] == outcome[1].trajectory[i]) == (i % 2 == 1));
    CHECK((outcome[0].trajectory[i] == outcome[2].trajectory[i]) == (i == 3));
  }
  CHECK(consistent_steps(outcome[0]) == std::vector<std::int64_t>{4, 6, 8, 12, 16, 18});
}

TEST_CASE("runs with averages in nodes that are stopped and resumed go on bit for bit", "[averaging][nodes]") {
  Training training = network_training("period = 4, node_period = 2, outer.kind = 'nesterov'");
  training.ranks_per_node = 2;
  training.batch_size = 5;
  check_resumes(small_images(), training, {4, 5, 8, 10});
}

TEST_CASE("the optimizer's state is averaged with the parameters of a node", "[averaging][nodes]") {
  Training training = network_training("period = 4, node_period = 2");
  training.strategy.own.of<AveragingSettings>().optimizer_state = StateAtAverage::average;
  training.ranks = 2;
  training.batch_size = 6;
  training.epochs = 1;
  const auto nodes = train(small_images(), training);
  training.strategy = strategy_of("kind = 'averaging', period = 2");
  CHECK(same_runs(nodes, train(small_images(), training)));
}

TEST_CASE("nodes average replicas that are pipelines, with the same bits", "[averaging][nodes][pipeline]") {
  Training training = network_training("period = 4, node_period = 1");
  training.ranks = 4;
  training.ranks_per_node = 2;
  training.batch_size = 12;
  training.micro_batches = 4;
  const auto whole = train(small_images(), training);
  training.ranks = 8;
  training.ranks_per_node = 4;
  training.replica.stages = 2;
  const auto staged = train(small_images(), training);
  CHECK(staged[0].parameters == whole[0].parameters);
  CHECK(staged[7].statistics == whole[0].statistics);
}

}  // namespace unisono::strategies
