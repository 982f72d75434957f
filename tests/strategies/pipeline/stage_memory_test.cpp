#include "unisono/parallel/placement.hpp"

#include <catch2/catch.hpp>

#include "../small_network.hpp"
#include "all_schedules.hpp"
#include "pipeline/schedules.hpp"

namespace unisono::strategies {
namespace {

/// A network of four equal blocks, with batch norm and dropout, that can be cut into eight pieces or more.
MakeModel deep_network() {
  std::vector<nn::LayerSettings> layers;
  const auto add = [&](nn::LayerSettings next) { layers.push_back(std::move(next)); };
  add(nn::convolution(4, {3}, {1}));
  for (int block = 0; block < 4; ++block) {
    add(nn::convolution(4, {3}, {1}));
    add(nn::layer("batch_norm"));
    add(nn::layer("relu"));
  }
  add(nn::layer("flatten"));
  add(nn::dropout(0.25));
  for (int block = 0; block < 3; ++block) {
    add(nn::dense(16));
    add(nn::layer("tanh"));
  }
  add(nn::dense(3));
  return network_of(std::move(layers));
}

/// What the stages of a run are predicted to need, in bytes.
std::vector<double> predicted(const Training& training, const models::ModelInputs& inputs) {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const auto model = training.model(inputs, {.backend = *backend, .reducer = reducer, .steps_together = true});
  const parallel::Stages stages(*model->staged(), training.replica, 1);
  std::vector<double> bytes;
  for (int stage = 0; stage < stages.stages(); ++stage) {
    const parallel::StageMemory memory =
        parallel::memory_of(stages, stage, training.replica, *backend, training.batch_size / training.micro_batches,
                            static_cast<int>(training.micro_batches));
    bytes.push_back(static_cast<double>(memory.activations) * sizeof(float));
  }
  return bytes;
}

TEST_CASE("the activations of stages take as much memory as predicted", "[stage_memory]") {
  const Examples examples = small_images(48);
  Training training{.model = deep_network(), .strategy = strategy_of("kind = 'allreduce'")};
  training.batch_size = 24;
  training.micro_batches = 6;
  for (const auto& [schedule, stages, chunks] : {std::tuple{parallel::PipelineSchedule::naive, 2, 1},
                                                 {parallel::PipelineSchedule::gpipe, 3, 1},
                                                 {parallel::PipelineSchedule::one_forward_one_backward, 2, 1},
                                                 {parallel::PipelineSchedule::one_forward_one_backward, 4, 1},
                                                 {parallel::PipelineSchedule::interleaved, 2, 2},
                                                 {parallel::PipelineSchedule::zero_bubble, 3, 1}}) {
    for (const parallel::Recompute recompute : {parallel::Recompute::none, parallel::Recompute::all}) {
      INFO(name_of(schedule, parallel::kPipelineSchedules)
           << ", " << stages << ", " << name_of(recompute, parallel::kRecompute));
      training.ranks = stages;
      training.replica.stages = stages;
      training.replica.schedule = schedule;
      training.replica.chunks = chunks;
      training.replica.recompute = recompute;
      const std::vector<double> bytes = predicted(training, {.features = examples.shape, .classes = examples.classes});
      const std::vector<Outcome> ranks = train(examples, training);
      for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
        INFO(stage);
        CHECK(static_cast<double>(ranks[stage].workspace_bytes) == Approx(bytes[stage]).epsilon(0.1));
      }
    }
  }
}

TEST_CASE("passes that are made anew have their activations in memory only while they run", "[stage_memory]") {
  const parallel::Program gpipe = parallel::gpipe_program(2, 5);
  CHECK(parallel::recomputed_flights(gpipe, 0, 0).inputs == 5);
  CHECK(parallel::recomputed_flights(gpipe, 0, 0).workspaces == 1);
  const parallel::Program split = parallel::zero_bubble_program(3, 6);
  for (int stage = 0; stage < 3; ++stage) {
    const parallel::RecomputedFlights most = parallel::recomputed_flights(split, stage, 0);
    CHECK(most.workspaces <= parallel::peak_of_flights(split, stage));
    CHECK(most.inputs <= parallel::peak_of_flights(split, stage));
  }
  CHECK(parallel::recomputed_flights(split, 2, 0).workspaces > 1);  // between the halves of their backward passes
}

}  // namespace
}  // namespace unisono::strategies
