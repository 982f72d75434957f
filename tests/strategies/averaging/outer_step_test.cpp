#include "averaging/averages.hpp"

#include "same_runs.hpp"
#include "targets_alone.hpp"

namespace unisono::strategies {
namespace {

float kept(const Outcome& outcome, std::size_t vector) { return outcome.vectors.at(vector).values.view()[kBias]; }

}  // namespace

TEST_CASE("an outer step of rate 1 without momentum is the average, bit for bit", "[averaging][outer]") {
  const Examples examples = small_images();
  const auto plain = train(examples, network_training("period = 3"));
  for (const char* outer : {"outer.kind = 'sgd'", "outer.kind = 'nesterov', outer.rate = 1, outer.momentum = 0"}) {
    const auto stepped = train(examples, network_training("period = 3, " + std::string(outer)));
    INFO(outer);
    CHECK(same_runs(stepped, plain));
    CHECK(stepped[0].vectors.size() == 1);  // θ₀ alone
  }
  CHECK_FALSE(same_runs(train(examples, network_training("period = 3, outer.kind = 'nesterov'")), plain));
}

TEST_CASE("outer steps are those of the formula, with Nesterov momentum and without", "[averaging][outer]") {
  // Two ranks, a target each; an average after each step. η = μ = 1/2:
  //   b = 0:    4, 2 → 2, 1, mean 3/2;           Δ = −3/2, v = −3/2;               b = 0 + (3/2 + 3/4)/2 = 9/8
  //   b = 9/8:  25/8, 9/8 → 17/8, 9/8, mean 13/8; Δ = −1/2, v = −3/4 − 1/2 = −5/4; b = 9/8 + (1/2 + 5/8)/2 = 27/16
  const auto nesterov =
      train(with_targets({4, 2, 3.125F, 1.125F}),
            targets_alone("period = 1, outer.kind = 'nesterov', outer.rate = 0.5, outer.momentum = 0.5", 2, 2));
  CHECK(nesterov[1].trajectory.at(0)[kBias] == 1.125F);
  CHECK(nesterov[1].trajectory.at(1)[kBias] == 1.6875F);
  CHECK(kept(nesterov[0], 0) == 1.6875F);
  CHECK(kept(nesterov[1], 1) == -1.25F);
  CHECK(ranks_agree(nesterov));

  // Without momentum: b = 0 + 3/4; then 13/4, 5/4 → 2, 1, mean 3/2: b = 3/4 + 3/8.
  const auto sgd = train(with_targets({4, 2, 3.25F, 1.25F}),
                         targets_alone("period = 1, outer.kind = 'sgd', outer.rate = 0.5", 2, 2));
  CHECK(sgd[0].trajectory.at(0)[kBias] == 0.75F);
  CHECK(sgd[1].trajectory.at(1)[kBias] == 1.125F);
}

TEST_CASE("outer steps begin where epochs of allreduce ended", "[averaging][outer]") {
  // An epoch is one step with the targets 4 and 2. With allreduce, b = 3/2. Then 11/4, 7/4, mean 9/4: Δ = −3/4 = v, and
  // b = 3/2 + (3/4 + 3/8)/2 = 33/16.
  Training training = targets_alone(
      "period = 1, allreduce_epochs = 1, outer.kind = 'nesterov', outer.rate = 0.5, outer.momentum = 0.5", 2, 2);
  training.epochs = 2;
  const auto outcome = train(with_targets({4, 2}), training);
  CHECK(outcome[0].trajectory.at(0)[kBias] == 1.5F);
  CHECK(outcome[0].parameters[kBias] == 2.0625F);
}

TEST_CASE("runs with outer steps that are stopped and resumed go on bit for bit", "[averaging][outer]") {
  check_resumes(small_images(), network_training("period = 3, allreduce_epochs = 1, outer.kind = 'nesterov'"),
                {2, 4, 6, 9});
}

TEST_CASE("outer momentum goes on whatever the number of ranks", "[averaging][outer]") {
  // The resumed runs learn nothing themselves: v ← v/2 and b ← b − v/4 at each average. All numbers are short.
  Training training =
      targets_alone("period = 1, outer.kind = 'nesterov', outer.rate = 0.5, outer.momentum = 0.5", 2, 4);
  training.stop_after = 1;
  const Examples examples = with_targets({4, 4, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0});
  const auto stopped = train(examples, training);  // v = −3/2, b = 9/8, as above
  training.stop_after = 1000;
  training.resumed = &stopped;
  training.optimizer.learning_rate = 0;
  for (const int ranks : {1, 2, 4}) {
    training.ranks = ranks;
    const auto resumed = train(examples, training);
    CHECK(resumed[0].parameters[kBias] == 1.125F + 0.1875F + 0.09375F);
    CHECK(kept(resumed.back(), 1) == -0.375F);
    CHECK(ranks_agree(resumed));
  }
}

TEST_CASE("outer steps are made by replicas that are pipelines, with the same bits", "[averaging][outer][pipeline]") {
  Training training = network_training("period = 2, outer.kind = 'nesterov'");
  training.ranks = 2;
  training.micro_batches = 2;
  const auto whole = train(small_images(), training);
  training.ranks = 4;
  training.replica.stages = 2;
  const auto staged = train(small_images(), training);
  CHECK(staged[0].parameters == whole[0].parameters);
  CHECK(staged[3].statistics == whole[0].statistics);
}

}  // namespace unisono::strategies
