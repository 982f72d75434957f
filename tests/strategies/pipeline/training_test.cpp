// Pipelines train to the serial run's bits: every schedule, any number of stages.
#include <catch2/catch.hpp>

#include "../small_network.hpp"
#include "optimizers.hpp"

namespace unisono::strategies {
namespace {

/// Residual blocks, batch statistics, dropout: all that a cut must not lie in, or that depends on what came before.
MakeModel images_model() {
  const nn::LayerSettings same = nn::convolution(3, {3}, {1}), norm = nn::layer("batch_norm");
  return network_of({same, nn::pool("max_pool", {2}), nn::layer("relu"), nn::layer("tanh"),
                     nn::residual({same, norm, nn::layer("relu"), same, norm}, {same, norm}), nn::layer("relu"), norm,
                     nn::layer("relu"), nn::residual({nn::layer("layer_norm"), same, nn::layer("gelu")}),
                     nn::dropout(0.3), nn::layer("flatten"), nn::dense(5), nn::layer("relu"), nn::dense(3)});
}

/// Twenty dense layers.
MakeModel deep_model() {
  std::vector<nn::LayerSettings> layers = {nn::layer("flatten")};
  for (int i = 0; i < 19; ++i) {
    layers.push_back(nn::dense(6 + i % 3));
    layers.push_back(nn::layer("tanh"));
  }
  layers.push_back(nn::dense(3));
  return network_of(std::move(layers));
}

std::vector<optim::OptimizerSettings> optimizers() {
  return {optim::with({.kind = "sgd", .learning_rate = 0.1}, "momentum = 0.9"),
          {.kind = "adamw", .learning_rate = 0.02, .weight_decay = 0.1},
          {.kind = "lamb", .learning_rate = 0.02, .weight_decay = 0.1, .clip_norm = 0.1},
          {.kind = "sgd", .learning_rate = 0.1, .clip_norm = 0.05}};
}

/// 23 examples in batches of 9: the last step of an epoch has 5.
Training training_of(MakeModel model, const optim::OptimizerSettings& optimizer, Index micro_batches) {
  Training training;
  training.model = std::move(model);
  training.strategy = strategy_of("kind = 'allreduce'");
  training.optimizer = optimizer;
  training.batch_size = 9;
  training.micro_batches = micro_batches;
  training.epochs = 2;
  return training;
}

void check_same(const std::vector<Outcome>& pipeline, const std::vector<Outcome>& serial) {
  CHECK(ranks_agree(pipeline));  // each rank gathered all stages
  CHECK(pipeline[0].parameters == serial[0].parameters);
  CHECK(pipeline[0].statistics == serial[0].statistics);
  CHECK(losses_over_ranks(pipeline) == losses_over_ranks(serial));
  CHECK(pipeline[0].optimizer_steps == serial[0].optimizer_steps);
  for (std::size_t i = 0; i < serial[0].optimizer_state.size(); ++i) {
    CHECK(std::ranges::equal(pipeline[0].optimizer_state[i].values.view(), serial[0].optimizer_state[i].values.view()));
  }
}

/// The settings of every schedule, with as many pieces as the model can have.
std::vector<parallel::ReplicaSettings> replicas_of(int stages, int most_pieces) {
  std::vector<parallel::ReplicaSettings> all;
  for (const auto& named : parallel::kPipelineSchedules) {
    const bool several = named.value == parallel::PipelineSchedule::interleaved;
    for (int chunks = several ? 2 : 1; chunks <= (several ? most_pieces / stages : 1) && chunks <= 3; ++chunks) {
      parallel::ReplicaSettings& settings = all.emplace_back();
      settings.stages = stages;
      settings.schedule = named.value;
      settings.chunks = chunks;
    }
  }
  return all;
}

std::string text_of(const parallel::ReplicaSettings& settings) {
  return std::string(name_of(settings.schedule, parallel::kPipelineSchedules)) + ", " +
         std::to_string(settings.stages) + " stages, " + std::to_string(settings.chunks) + " chunks";
}

void check_all(const MakeModel& model, const std::vector<int>& stages, int most_pieces) {
  const Examples examples = small_images();
  for (const optim::OptimizerSettings& optimizer : optimizers()) {
    for (const Index micro_batches : {1, 5, 9}) {
      const Training serial = training_of(model, optimizer, micro_batches);
      const auto expected = train(examples, serial);
      REQUIRE(expected[0].parameters != expected[0].trajectory.front());
      for (const int count : stages) {
        for (const parallel::ReplicaSettings& settings : replicas_of(count, most_pieces)) {
          INFO(text_of(settings) << ", " << micro_batches << " micro-batches, " << optimizer.kind);
          Training pipeline = serial;
          pipeline.replica = settings;
          pipeline.ranks = count;
          check_same(train(examples, pipeline), expected);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("a pipeline of images trains to the serial run's bits", "[long][pipeline][training]") {
  check_all(images_model(), {2, 3, 4}, 8);
}

TEST_CASE("a deep pipeline trains to the serial run's bits", "[long][pipeline][training]") {
  check_all(deep_model(), {2, 5, 8}, 20);
}

TEST_CASE("activations that are made anew change no bit", "[pipeline][training]") {
  const Training serial = training_of(images_model(), optimizers()[1], 5);
  const auto expected = train(small_images(), serial);
  for (parallel::ReplicaSettings settings : replicas_of(3, 8)) {
    INFO(text_of(settings));
    settings.recompute = parallel::Recompute::all;
    Training pipeline = serial;
    pipeline.replica = settings;
    pipeline.ranks = 3;
    check_same(train(small_images(), pipeline), expected);
  }
}

TEST_CASE("replicas that are pipelines: reproducible sums give the serial run's bits", "[pipeline][training]") {
  for (const optim::OptimizerSettings& optimizer : optimizers()) {
    Training serial = training_of(images_model(), optimizer, 8);
    serial.leaves = 4;
    const auto expected = train(small_images(), serial);
    for (const auto& [replicas, stages] : {std::pair{2, 2}, {2, 4}, {3, 2}, {4, 1}}) {
      INFO(replicas << " replicas of " << stages << " stages, " << optimizer.kind);
      Training hybrid = serial;
      hybrid.replica.stages = stages;
      hybrid.ranks = replicas * stages;
      const auto trained = train(small_images(), hybrid);
      CHECK(ranks_agree(trained));
      CHECK(trained[0].parameters == expected[0].parameters);
      CHECK(trained[0].statistics == expected[0].statistics);
    }
  }
}

TEST_CASE("replicas that are pipelines: fast sums and averages give the bits of single ranks", "[pipeline][training]") {
  for (const char* strategy : {"kind = 'allreduce'", "kind = 'averaging', period = 2"}) {
    INFO(strategy);
    Training ranks = training_of(images_model(), optimizers()[1], 6);
    ranks.strategy = strategy_of(strategy);
    ranks.ranks = 2;
    const auto expected = train(small_images(), ranks);
    Training hybrid = ranks;
    hybrid.replica.stages = 2;
    hybrid.ranks = 4;
    const auto trained = train(small_images(), hybrid);
    CHECK(trained[0].parameters == expected[0].parameters);
    CHECK(trained[0].statistics == expected[0].statistics);
  }
}

}  // namespace unisono::strategies
