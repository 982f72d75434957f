// Predictions of pipelines, by hand.
#include "plan/pipelines.hpp"

#include <catch2/catch.hpp>

#include "plan/measure.hpp"
#include "planned_network.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/session/stage_report.hpp"

namespace unisono::planning {

TEST_CASE("a pipeline of equal stages with free messages takes as long as its schedule's formula says", "[plan]") {
  const PlannedNetwork network;
  for (const int micro_batches : {1, 2, 8, 32}) {
    for (const char* schedule : {"gpipe", "1f1b"}) {
      const Prediction made =
          network.predict({"replica.stages=4", "train.micro_batches=" + std::to_string(micro_batches),
                           std::string("replica.schedule=") + '"' + schedule + '"'},
                          {1, 4});
      CHECK(made.gradient == Approx(8));  // 32 examples, a fourth of the layers
      CHECK(made.seconds() == Approx(8.0 * (micro_batches + 3) / micro_batches));
      CHECK(made.bubble == Approx(8.0 * 3 / micro_batches));
      CHECK(made.sent_bytes == 0);
      CHECK(made.stages == 4);
      CHECK(made.makes_serial_steps);
      CHECK(made.efficiency == Approx(micro_batches / (micro_batches + 3.0)));
    }
  }
}

TEST_CASE("the measured passes of the segments say which stage waits for which", "[plan]") {
  // Of 8 parts of an example's second, the first layer has 5: it is busy for 20 of 32 seconds.
  Profile profile = slow_profile();
  profile.segments = {{2, 0.4, 0.3, 0.3}, {2, 0.4, 0.3, 0.3}, {1, 0.2, 0.4, 0.4}};
  const PlannedNetwork network(profile);
  const auto placed = network.propose({1, 2}, 2);
  REQUIRE(placed);
  CHECK(placed->way.config.replica.placement.first_layers == std::vector<std::string>{"dense1", "dense2"});
  // The first stage is never idle but once: after two forward passes, at 2 s, it waits for the first gradient. That
  // comes at 2.5 s: after its own forward pass and all passes of the second stage, a second and 12 / 8.
  CHECK(placed->way.config.train.micro_batches == 8);
  CHECK(placed->made.gradient == Approx(16));
  CHECK(placed->made.seconds() == Approx(20 + 0.5));
}

TEST_CASE("without measured passes, flops divide the time of a gradient", "[plan]") {
  Profile profile = slow_profile();
  profile.segments = {};
  const Prediction made = PlannedNetwork(profile).predict({"replica.stages=2", "train.micro_batches=4"}, {1, 2});
  CHECK(made.gradient == Approx(16));  // the mean of both stages
  CHECK(made.seconds() >= Approx(16 * 5.0 / 4));
}

TEST_CASE("messages between stages on two hosts go over the link", "[plan]") {
  const PlannedNetwork network;
  const Prediction here = network.predict({"replica.stages=2", "train.micro_batches=1"}, {1, 2});
  const Prediction apart = network.predict({"replica.stages=2", "train.micro_batches=1"}, {2, 1});
  CHECK(here.boundaries == Approx(0).margin(1e-6));
  // One boundary of 32 examples of 8 values there, and its gradient back; each host sends one of them.
  CHECK(apart.sent_bytes == 32 * 8 * 4);
  CHECK(apart.boundaries == Approx(2 * apart.sent_bytes / 1000).epsilon(1e-3));
  CHECK(apart.gradient == here.gradient);
}

TEST_CASE("replicas of pipelines add up the gradients of their stages", "[plan]") {
  const PlannedNetwork network;
  // Ranks 0 and 1 of each host are the stages of a replica: what both send has all parameters.
  const Prediction two = network.predict({"replica.stages=2", "train.micro_batches=4"}, {2, 2});
  CHECK(two.sent_bytes == Approx(4 * 320));  // 4 bytes of each, in a sum of two hosts
  CHECK(two.gradient == Approx(8));
  CHECK(two.bubble == Approx(8.0 / 2));  // two micro-batches of each replica
  // The sum runs beside the backward pass of the last micro-batch, two thirds of its 4 seconds.
  CHECK(two.exposed == Approx(0).margin(1e-9));
  Profile slow = slow_profile();
  slow.between_hosts.megabytes_per_second = 1e-4;
  const Prediction slower = PlannedNetwork(slow).predict({"replica.stages=2", "train.micro_batches=4"}, {2, 2});
  CHECK(slower.exposed == Approx(two.sent_bytes / 100 - 8.0 / 3).epsilon(0.01));
  // On one host nothing is sent to others.
  CHECK(network.predict({"replica.stages=2", "train.micro_batches=4"}, {1, 4}).sent_bytes == 0);
}

TEST_CASE("the memory of a pipeline is what info says of its largest stage", "[plan]") {
  const PlannedNetwork network;
  for (const int stages : {2, 4}) {
    const settings::Config config = PlannedNetwork::config(
        {"replica.stages=" + std::to_string(stages), "train.micro_batches=8", "optimizer.momentum=0.9"});
    const auto strategy = strategies::make_strategy(config.strategy);
    const session::StagePlan plan(config, *network.model, *network.backend, network.data, *strategy,
                                  {.ranks = 4, .process_bytes = PlannedNetwork::kProcessBytes});
    const session::StageReport report(plan, session::place_model(plan, config));
    CHECK(predict_pipeline(network.planned(), {.name = "asked", .config = config}, {1, 4}).memory_bytes ==
          report.peak_memory_bytes());
  }
}

TEST_CASE("a proposed pipeline is the config with the keys that it names", "[plan]") {
  const PlannedNetwork network;
  const auto proposed = network.propose({1, 4}, 2);
  REQUIRE(proposed);
  CHECK(proposed->way.name == "allreduce, 2 pipelines of 2 stages, 16 micro-batches");
  const settings::Config same = PlannedNetwork::config(proposed->way.settings);
  CHECK(settings::effective_config(same) == settings::effective_config(proposed->way.config));
  CHECK(same.replica.stages == 2);
  CHECK(network.predict(proposed->way.settings, {1, 4}).seconds() == Approx(proposed->made.seconds()));
  // More micro-batches for each rank have a smaller bubble, up to the most that are tried.
  CHECK(same.train.micro_batches == 4 * kMostMicroBatches);
  CHECK(!network.propose({1, 4}, 2, {"train.batch_size=3"}));
}

TEST_CASE("a proposed pipeline keeps the config's schedule", "[plan]") {
  const PlannedNetwork network;
  const std::vector<std::string> interleaved = {"replica.schedule=\"interleaved\"", "replica.chunks=2"};
  const auto proposed = network.propose({1, 2}, 2, interleaved);
  REQUIRE(proposed);
  CHECK(proposed->way.config.replica.chunks == 2);
  CHECK(proposed->way.config.replica.placement.first_layers.size() == 4);
  // (m + (S − 1)/v) T for 8 micro-batches, where a stage has 16 seconds of work.
  CHECK(proposed->made.seconds() == Approx(16 * (8 + 0.5) / 8));
}

TEST_CASE("passes of another number of segments are refused", "[plan]") {
  const PlannedNetwork network;
  const settings::Config config = PlannedNetwork::config({});
  const models::ModelInputs inputs = session::inputs_of(network.data);
  const std::vector<Way> ways;
  const Measured measured{config, inputs, network.data, *network.model, {}, ways};
  Profile profile = slow_profile();
  profile.model = identity_of(measured);
  CHECK_NOTHROW(require_same_model(profile, "profile.toml", measured));
  profile.segments = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
  CHECK_THROWS_WITH(require_same_model(profile, "profile.toml", measured),
                    Catch::Contains("3 segments, but the network has 4"));
  profile.segments = {};
  CHECK_NOTHROW(require_same_model(profile, "profile.toml", measured));
}

TEST_CASE("pipelines of which nothing is known are not predicted", "[plan]") {
  const PlannedNetwork network;
  const auto obstacle = [&](std::vector<std::string> overrides, int replicas) {
    return obstacle_to_division(network.planned(), PlannedNetwork::config(std::move(overrides)), replicas);
  };
  CHECK(obstacle({}, 2).empty());
  CHECK_THAT(obstacle({"strategy.compression.kind=\"bf16\""}, 2), Catch::Contains("not known"));
  CHECK(obstacle({"strategy.kind=\"gossip\""}, 1).empty());
  CHECK_THAT(obstacle({"strategy.kind=\"gossip\""}, 2), Catch::Contains("not known"));
  CHECK_THAT(obstacle({"strategy.kind=\"parameter_server\""}, 2), Catch::Contains("holds as a whole"));
}

TEST_CASE("pipelines of two stages, of a host and of all ranks are proposed", "[plan]") {
  using Numbers = std::vector<int>;
  CHECK(stages_to_propose({1, 1}, 9) == Numbers{});
  CHECK(stages_to_propose({1, 2}, 9) == Numbers{2});
  CHECK(stages_to_propose({2, 4}, 9) == Numbers{2, 4, 8});
  CHECK(stages_to_propose({2, 4}, 5) == Numbers{2, 4});
  CHECK(stages_to_propose({3, 1}, 9) == Numbers{3});
  CHECK(stages_to_propose({2, 3}, 5) == Numbers{2, 3});
  CHECK(stages_to_propose({2, 2}, 1) == Numbers{});
}

}  // namespace unisono::planning
