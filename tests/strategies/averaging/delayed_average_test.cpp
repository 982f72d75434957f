#include "averaging/averages.hpp"

#include <chrono>
#include <thread>

#include "same_runs.hpp"
#include "targets_alone.hpp"

namespace unisono::strategies {

TEST_CASE("a delayed average keeps what a rank has learnt since it was started", "[averaging][overlap]") {
  // Two ranks, a target each, b ← (b + target)/2, an average started after every step:
  //   step 1: 4, 0 → 2, 0; mean₁ = 1
  //   step 2: 2, 4 → 2, 2; corrected by mean₁ − (2, 0) = −1, 1: 1, 3; mean₂ = 2
  //   step 3: 5, 3 → 3, 3; corrected by mean₂ − (1, 3) = 1, −1: 4, 2; the epoch ends: 3
  const auto outcome = train(with_targets({4, 0, 2, 4, 5, 3}),
                             targets_alone("period = 1, overlap = true, optimizer_state = 'keep'", 2, 2));
  const auto after = [&](std::size_t rank, std::size_t step) { return outcome[rank].trajectory.at(step - 1)[kBias]; };
  CHECK(after(0, 1) == 2);
  CHECK(after(1, 1) == 0);
  CHECK(after(0, 2) == 1);
  CHECK(after(1, 2) == 3);
  CHECK(after(0, 3) == 3);
  CHECK(ranks_agree(outcome));
  CHECK(consistent_steps(outcome[0]) == std::vector<std::int64_t>{3});
}

TEST_CASE("outer steps of delayed averages are those of the formula", "[averaging][overlap]") {
  // As above with η = 1/2: θ₀ = 0, then (0 + 1)/2 = 1/2 for mean₁: 2, 2 corrected by 1/2 − (2, 0) = −3/2, 1/2: 1/2,
  // 5/2. mean₂ = 3/2; step 3: 7/2, 3/2 → 2, 2; θ₀ = (1/2 + 3/2)/2 = 1; corrected by 1 − (1/2, 5/2): 5/2, 1/2; mean 3/2;
  // θ₀ = (1 + 3/2)/2.
  const auto outcome =
      train(with_targets({4, 0, 2, 4, 3.5F, 1.5F}),
            targets_alone("period = 1, overlap = true, optimizer_state = 'keep', outer.kind = 'sgd', outer.rate = 0.5",
                          2, 2));
  CHECK(outcome[0].trajectory.at(1)[kBias] == 0.5F);
  CHECK(outcome[1].trajectory.at(1)[kBias] == 2.5F);
  CHECK(outcome[0].parameters[kBias] == 1.25F);
  CHECK(ranks_agree(outcome));
}

TEST_CASE("delayed averages weigh the ranks by their examples", "[averaging][overlap]") {
  // One of three examples, and two: 4 | 1, 1 → 2 | 1/2; mean₁ = (2 + 2 · 1/2)/3 = 1. In step 2 the targets are what the
  // ranks hold, so that nothing changes but by the correction: 1 | 1.
  const auto outcome = train(with_targets({4, 1, 1, 2, 0.5F, 0.5F}),
                             targets_alone("period = 1, overlap = true, optimizer_state = 'keep'", 2, 3));
  CHECK(outcome[0].parameters[kBias] == Approx(1).margin(4 * 2 * 0x1p-24));  // four roundings
  CHECK(ranks_agree(outcome));
}

TEST_CASE("on one rank a run of delayed averages is the serial run, bit for bit", "[averaging][overlap]") {
  Training training = network_training("period = 2, overlap = true");
  training.ranks = 1;
  training.model = small_network(true, "local");
  const auto delayed = train(small_images(), training);
  training.strategy = {};
  CHECK(same_runs(delayed, train(small_images(), training)));
}

TEST_CASE("where nothing is learnt, delayed averages are the plain ones, bit for bit", "[averaging][overlap]") {
  Training training = network_training("period = 2, overlap = true");
  training.ranks = 2;
  training.batch_size = 6;
  training.optimizer.learning_rate = 0;
  const auto delayed = train(small_images(24), training);
  training.strategy.own.of<AveragingSettings>().overlap = false;
  const auto plain = train(small_images(24), training);
  CHECK(delayed[0].parameters == plain[0].parameters);
  CHECK(ranks_agree(delayed));
}

TEST_CASE("delayed averages do not depend on the speed of the ranks", "[averaging][overlap]") {
  const Examples examples = small_images();
  for (const char* more : {"", ", outer.kind = 'nesterov'", ", node_period = 1"}) {
    Training training = network_training("period = 2, overlap = true" + std::string(more));
    training.ranks_per_node = 2;
    const auto even = train(examples, training);
    training.inputs = models::ModelInputs{.features = examples.shape, .classes = examples.classes};
    training.source = [&examples](const data::SourceOptions& options) {
      const auto pause = [rank = options.rank] {
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      };
      return std::make_unique<PausingSource>(examples, options, pause);
    };
    CHECK(same_runs(train(examples, training), even));
  }
}

TEST_CASE("an outer step of rate 1 without momentum leaves delayed averages as they are", "[averaging][overlap]") {
  const auto plain = train(small_images(), network_training("period = 2, overlap = true"));
  const auto outer = train(small_images(), network_training("period = 2, overlap = true, outer.kind = 'sgd'"));
  CHECK(same_runs(outer, plain));
}

TEST_CASE("nodes begin a delayed average with one model each", "[averaging][overlap][nodes]") {
  Training training = network_training("period = 4, node_period = 2, overlap = true");
  training.ranks = 4;
  training.ranks_per_node = 2;
  training.batch_size = 4;
  training.epochs = 2;
  const auto outcome = train(small_images(), training);  // 6 steps an epoch
  for (const std::size_t step : {2, 4, 8, 10}) {
    INFO("step " << step);
    CHECK(outcome[0].trajectory[step - 1] == outcome[1].trajectory[step - 1]);
    CHECK(outcome[0].trajectory[step - 1] != outcome[2].trajectory[step - 1]);
  }
  CHECK(consistent_steps(outcome[0]) == std::vector<std::int64_t>{6, 12});
  CHECK(ranks_agree(outcome));

  // With one rank on each node, they change nothing.
  training.ranks_per_node = 1;
  const auto lonely = train(small_images(), training);
  training.strategy.own.of<AveragingSettings>().node_period = 0;
  CHECK(same_runs(lonely, train(small_images(), training)));
}

TEST_CASE("runs of delayed averages that are stopped and resumed go on bit for bit", "[averaging][overlap]") {
  check_resumes(small_images(), network_training("period = 2, overlap = true, outer.kind = 'nesterov'"), {4, 8});
}

TEST_CASE("replicas that are pipelines delay averages with the same bits", "[averaging][overlap][pipeline]") {
  Training training = network_training("period = 2, overlap = true, outer.kind = 'nesterov'");
  training.ranks = 2;
  training.micro_batches = 2;
  const auto whole = train(small_images(), training);
  training.ranks = 4;
  training.replica.stages = 2;
  CHECK(train(small_images(), training)[3].parameters == whole[0].parameters);
}

}  // namespace unisono::strategies
