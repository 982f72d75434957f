#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "unisono/experiment/checkpoint.hpp"

namespace unisono::testing {

/// A model of two blocks, one of them stored in an order of its own, with one running statistic.
struct SampleModel {
  ParameterLayout parameters, statistics;

  explicit SampleModel(Index outputs = 3) {
    parameters.add({.name = "convolution1.weight",
                    .shape = {outputs, 2, 2, 2},
                    .axes = {2, 3, 0, 1},
                    .role = Role::weight,
                    .fan_in = 8,
                    .fan_out = 3,
                    .initialiser = "he_normal"});
    parameters.add({.name = "convolution1.bias",
                    .shape = {outputs},
                    .axes = {},
                    .role = Role::bias,
                    .fan_in = 8,
                    .fan_out = 3,
                    .initialiser = "zeros"});
    statistics.add({.name = "batch_norm1.mean",
                    .shape = {5},
                    .axes = {},
                    .role = Role::statistic,
                    .fan_in = 0,
                    .fan_out = 0,
                    .initialiser = "zeros"});
  }

  CheckpointLayout layout(std::vector<std::string> optimizer = {"velocity"}) const {
    return {.parameters = parameters, .statistics = statistics, .optimizer = std::move(optimizer)};
  }
};

/// first, first + 1, … in every place of the blocks, zero between them.
inline std::vector<float> counted(const ParameterLayout& layout, float first) {
  std::vector<float> values(static_cast<std::size_t>(layout.size()));
  for (const Block& block : layout.blocks()) {
    for (float& value : part(MutableView(values), block)) value = first++;
  }
  return values;
}

inline Checkpoint sample_checkpoint(const SampleModel& model, std::int64_t step = 7) {
  Checkpoint checkpoint;
  CheckpointHeader& header = checkpoint.header;
  header.step = step;
  header.cursor = {.epoch = 1, .step = 3};
  header.optimizer_steps = step;
  header.seed = 0xFFFF'FFFF'FFFF'FFF1;
  header.config = "name = \"größe\"\n";
  header.inputs = {.features = {.channels = 2, .height = 4, .width = 5}, .classes = 3, .target_size = 0};
  header.normalization = {.mean = {0.1F, -2.5F}, .scale = {3, 1e-7F}};
  header.data_identity = 0x8000'0000'0000'0001;
  header.epoch_sums = {.loss = 0.1, .examples = 64, .correct = 12};
  header.best = 0.75;
  header.has_best = true;
  header.ranks = 2;
  header.threads = 3;
  header.device = "some CPU";
  header.resident = false;
  header.build = 5;
  header.layout = model.parameters.hash();
  checkpoint.parameters = counted(model.parameters, 1);
  checkpoint.statistics = counted(model.statistics, 100);
  checkpoint.optimizer = {{counted(model.parameters, 1000)}};
  return checkpoint;
}

}  // namespace unisono::testing
