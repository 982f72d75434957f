#include "averaging/averages.hpp"

#include "same_runs.hpp"
#include "targets_alone.hpp"

namespace unisono::strategies {
namespace {

Training adaptive_targets(const std::string& first_period) {
  Training training = targets_alone("period = 'adaptive', first_period = " + first_period, 2, 2);
  training.reads_losses_at_averages = true;
  return training;
}

/// Steps of two ranks, all of whose targets are 8.
std::vector<std::int64_t> averages_with_rate(double rate, std::size_t steps) {
  Training training = adaptive_targets("4");
  training.optimizer.learning_rate = rate;
  return consistent_steps(train(with_targets(std::vector<float>(2 * steps, 8)), training)[0]);
}

/// Its period falls within the run.
Training adaptive_network() {
  Training training = network_training("period = 'adaptive', first_period = 6");
  training.optimizer.learning_rate = 0.05;
  training.batch_size = 3;  // 8 steps an epoch
  training.epochs = 12;
  training.reads_losses_at_averages = true;
  return training;
}

}  // namespace

TEST_CASE("periods become shorter with the root of the loss", "[averaging][adaptive]") {
  // Rate 1/8 leaves 3/4 of the error after each step, and a = 9/16 of the loss. The first period gives F₀ ∝ 1 + a + a²
  // + a³ = 2.06 (τ = 4); the second a⁴ F₀: τ = ⌈4 a²⌉ = ⌈1.27⌉ = 2; the third (a⁸ + a⁹)/2 · 4/2.06 = 0.0152: τ = ⌈0.49⌉
  // = 1.
  CHECK(averages_with_rate(0.125, 13) == std::vector<std::int64_t>{4, 8, 10, 11, 12, 13});
}

TEST_CASE("a loss that rises does not make the first period longer", "[averaging][adaptive]") {
  CHECK(averages_with_rate(1.25, 12) == std::vector<std::int64_t>{4, 8, 12});  // the error times −3/2 in each step
}

TEST_CASE("a loss of 0 leaves one step between averages, and 0 from the start the first period",
          "[averaging][adaptive]") {
  CHECK(averages_with_rate(0.5, 11) == std::vector<std::int64_t>{4, 8, 9, 10, 11});  // the first step solves it
  const Training training = adaptive_targets("2");
  CHECK(consistent_steps(train(with_targets(std::vector<float>(10)), training)[0]) ==
        std::vector<std::int64_t>{2, 4, 5});
}

TEST_CASE("runs of adaptive periods that are stopped and resumed go on bit for bit", "[averaging][adaptive]") {
  const Training training = adaptive_network();
  const auto whole = train(small_images(), training);
  CHECK(whole[0].scalars == whole[2].scalars);
  REQUIRE(whole[0].scalars.at(1) < 6);
  const std::vector<std::int64_t> averages = consistent_steps(whole[0]);
  check_resumes(small_images(), training, {6, 8, averages.at(averages.size() / 2), averages.at(averages.size() - 2)});
}

TEST_CASE("losses are reported as without adaptive periods", "[averaging][adaptive]") {
  // Their sums are set aside meanwhile, and come back: 4 steps with two errors of 8, 6, 9/2 and 27/8.
  Training training = adaptive_targets("3");
  training.optimizer.learning_rate = 0.125;
  const auto outcome = train(with_targets(std::vector<float>(8, 8)), training);
  double sum = 0;
  for (const double loss : losses_over_ranks(outcome)) sum += loss;
  CHECK(sum == 2 * (64 + 36 + 20.25 + 11.390625));
}

TEST_CASE("the stages of a pipeline choose the same periods as one rank", "[averaging][adaptive][pipeline]") {
  Training training = adaptive_network();
  training.ranks = 2;
  training.batch_size = 4;
  training.micro_batches = 2;
  const auto whole = train(small_images(), training);
  REQUIRE(whole[0].scalars.at(1) < 6);
  training.ranks = 4;
  training.replica.stages = 2;
  const auto staged = train(small_images(), training);
  CHECK(staged[0].parameters == whole[0].parameters);
  CHECK(staged[0].scalars == whole[0].scalars);
  CHECK(staged[1].scalars == whole[0].scalars);
}

}  // namespace unisono::strategies
