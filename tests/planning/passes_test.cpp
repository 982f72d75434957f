// Predictions of whole-batch methods, by hand.
#include "plan/passes.hpp"

#include <catch2/catch.hpp>

#include "planned_network.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::planning {
namespace {

Way whole_batch_way() {
  return {.name = "asked",
          .config = settings::parse_config({.path = "net.toml",
                                            .text = kFourLayers,
                                            .overrides = {"strategy.kind=\"batch\"", "strategy.portions=8",
                                                          "optimizer.kind=\"lbfgs\"", "optimizer.history=4"},
                                            .removals = {"train.batch_size", "optimizer.learning_rate"}})};
}

/// A set of 800 examples. A portion takes 3 seconds on one rank, 4 beside others of its host, and 5 beside all.
PlannedNetwork slow_portions() {
  Profile profile = slow_profile();
  profile.portions = {.examples = 100, .one_rank = 3, .one_host = 4, .all_hosts = 5, .float_ns = 1e9 / 320};
  PlannedNetwork network(profile);
  network.data.train = 800;
  return network;
}

}  // namespace

TEST_CASE("a pass is a rank's portions, work on its shards of vectors, and their messages", "[plan]") {
  const PlannedNetwork network = slow_portions();
  // θ has 320 floats, of which each takes 1/320 s to touch: a second a vector. An iteration touches ten and, of nine
  // that L-BFGS keeps, each twice.
  const Prediction one = predict_pass(network.planned(), whole_batch_way(), {1, 1});
  CHECK(one.gradient == Approx(8 * 3));
  CHECK(one.update == Approx(28));
  CHECK(one.exposed == 0);
  CHECK(one.examples_per_second == Approx(800.0 / 52));
  CHECK(one.efficiency == Approx(1));
  CHECK(one.makes_serial_steps);

  const Prediction two = predict_pass(network.planned(), whole_batch_way(), {1, 2});
  CHECK(two.gradient == Approx(4 * 4));
  CHECK(two.update == Approx(14));
  CHECK(two.messages < 1e-5);
  CHECK(two.efficiency == Approx(52 / 30.0 / 2));

  // On three, one rank has three portions, which are two nodes of the tree: two shards of gradients, and one of θ, go
  // to each of two others. Sums of 27 products and of five numbers go there, too, each of 20 pieces of 8 bytes.
  const Prediction three = predict_pass(network.planned(), whole_batch_way(), {3, 1});
  CHECK(three.gradient == Approx(3 * 5));
  CHECK(three.update == Approx(28 / 3.0));
  const double shards = 3 * (320 / 3) * 4 * 2 / 1000.0, sums = (27 + 5) * 20 * 8 * 2 / 1000.0;
  CHECK(three.exposed == Approx(shards + sums).epsilon(0.02));
  CHECK(three.sent_bytes == Approx(1000 * three.exposed).epsilon(0.01));
}

TEST_CASE("a method's vectors are divided among the ranks' memory", "[plan]") {
  const PlannedNetwork network = slow_portions();
  const auto of = [&](int ranks) {
    return predict_pass(network.planned(), whole_batch_way(), {1, ranks}).memory_bytes;
  };
  CHECK(of(1) > PlannedNetwork::kProcessBytes);
  CHECK(of(4) < of(1));
}

TEST_CASE("portions of which nothing was measured are not predicted", "[plan]") {
  CHECK_THROWS_WITH(predict_pass(PlannedNetwork().planned(), whole_batch_way(), {1, 1}),
                    Catch::Contains("does not say how long portions"));
}

}  // namespace unisono::planning
