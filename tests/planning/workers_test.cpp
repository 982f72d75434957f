// Predictions of threads that make steps of their own on one model, by hand.
#include "plan/workers.hpp"

#include <catch2/catch.hpp>

#include "planned_network.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::planning {

TEST_CASE("as many steps are made at once as a rank has threads", "[plan]") {
  Profile profile = slow_profile();
  profile.threads = 3;
  profile.workers = {{16, 32}, {20, 40}, {21, 42}, {3, 3}};
  const PlannedNetwork network(profile);
  const Way way{.name = "asked", .config = PlannedNetwork::config({"strategy.kind=\"hogwild\"", "strategy.threads=3"})};
  const Prediction made = predict_workers(network.planned(), way);
  CHECK(made.gradient == Approx(40.0 / 3));
  // An update without momentum touches 3 floats for each parameter, and copies of θ and what is added to it 8.
  CHECK(made.update == Approx((3 + 3 * 8 / 3.0) / 3));
  CHECK(made.examples_per_second == Approx(32 / made.seconds()));
  CHECK(made.efficiency == Approx(32 / made.seconds()));  // one rank takes a second for an example
  CHECK(!made.makes_serial_steps);

  // Each thread has three vectors as long as θ, a model and a backend, and three batches; all but the first have an
  // optimizer's state.
  Way one = way, momentum = way;
  one.config = PlannedNetwork::config({"strategy.kind=\"hogwild\""});
  momentum.config = PlannedNetwork::config({"strategy.kind=\"hogwild\"", "optimizer.momentum=0.9"});
  profile.threads = 1;
  const PlannedNetwork single(profile);
  const std::int64_t vector = network.model->layout().size() * std::int64_t{sizeof(float)};
  const std::int64_t of_one = predict_workers(single.planned(), one).memory_bytes;
  constexpr std::int64_t kBatch = 32, kFloat = sizeof(float);
  const std::int64_t batch = kFloat * kBatch * network.data.features.size();
  const std::int64_t scratch = kFloat * network.backend->scratch_size();
  CHECK(made.memory_bytes - of_one == 2 * (3 * vector + network.model->workspace_bytes(kBatch) + scratch + 3 * batch));
  CHECK(predict_workers(network.planned(), momentum).memory_bytes - made.memory_bytes >= 3 * vector);
}

TEST_CASE("threads of which nothing was measured are not predicted", "[plan]") {
  const Way way{.name = "asked", .config = PlannedNetwork::config({"strategy.kind=\"hogwild\""})};
  CHECK_THROWS_WITH(predict_workers(PlannedNetwork().planned(), way), Catch::Contains("does not say how long threads"));
}

}  // namespace unisono::planning
