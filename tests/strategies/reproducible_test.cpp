// Reproducible sums: the same bits on any number of ranks.
#include <catch2/catch.hpp>

#include "optimizers.hpp"
#include "small_network.hpp"

namespace unisono::strategies {
namespace {

/// Dense layers alone.
MakeModel dense_network() {
  return network_of({nn::layer("flatten"), nn::dense(9), nn::layer("gelu"), nn::layer("layer_norm"), nn::dense(5),
                     nn::layer("tanh"), nn::dense(3)});
}

Training allreduce_training(const optim::OptimizerSettings& optimizer, MakeModel model) {
  Training training;
  training.model = std::move(model);
  training.strategy = strategy_of("kind = 'allreduce'");
  training.optimizer = optimizer;
  return training;
}

/// On one to eight ranks; 23 examples: the last step of an epoch has fewer than there may be ranks.
void check_same_bits(const optim::OptimizerSettings& optimizer, const MakeModel& model, Index batch_size = 9) {
  const Examples examples = small_images();
  Training training = allreduce_training(optimizer, model);
  training.batch_size = batch_size;
  training.epochs = 2;
  for (const Index micro_batches : {8, 9}) {
    training.micro_batches = micro_batches;
    training.leaves = 8;
    training.ranks = 1;
    const auto one = train(examples, training);
    REQUIRE(one[0].parameters != one[0].trajectory.front());
    for (const int ranks : {2, 3, 4, 5, 6, 7, 8}) {
      INFO(ranks << " ranks, " << micro_batches << " micro-batches");
      training.ranks = ranks;
      const auto several = train(examples, training);
      CHECK(ranks_agree(several));
      CHECK(several[0].trajectory == one[0].trajectory);
      CHECK(several[0].statistics == one[0].statistics);
      CHECK(settled_losses(several) == settled_losses(one));
    }
  }
}

}  // namespace

TEST_CASE("reproducible sums: three models and five optimizers on one to eight ranks", "[reproducible]") {
  for (const MakeModel& model : {small_network(true), small_network(false), dense_network()}) {
    check_same_bits(optim::with({.kind = "sgd", .learning_rate = 0.1}, "momentum = 0.9"), model);
    check_same_bits({.kind = "adagrad", .learning_rate = 0.02, .clip_norm = 0.1}, model);
    check_same_bits({.kind = "rmsprop", .learning_rate = 0.005}, model);
    check_same_bits({.kind = "adamw", .learning_rate = 0.02, .weight_decay = 0.1}, model);
    check_same_bits({.kind = "lamb", .learning_rate = 0.02, .clip_norm = 0.1}, model);
  }
}

TEST_CASE("reproducible sums: a last step of one example", "[reproducible]") {
  check_same_bits({.kind = "adamw", .learning_rate = 0.02}, small_network(true), 11);
}

TEST_CASE("reproducible sums stay close to fast ones", "[reproducible]") {
  Training training = allreduce_training({.kind = "sgd", .learning_rate = 0.1}, small_network(true));
  training.batch_size = 16;
  training.micro_batches = 16;
  const auto fast = train(small_images(), training);
  training.leaves = 8;
  const auto reproducible = train(small_images(), training);
  // Each of g's values is a sum of 16 terms in another order, in each of 2 steps.
  CHECK(largest_difference(fast[0].parameters, reproducible[0].parameters) < 1e-5);
  CHECK(fast[0].parameters != reproducible[0].parameters);
}

}  // namespace unisono::strategies
