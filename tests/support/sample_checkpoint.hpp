#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_store.hpp"
#include "divisions.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::testing {

inline constexpr std::int64_t kHalf = 3, kAll = 6;  ///< steps until a checkpoint, and of the run
inline const models::ModelInputs kImageInputs{.features = {2, 6, 6}, .classes = 5};

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
                    .initialiser = Initialiser::he_normal});
    parameters.add({.name = "convolution1.bias",
                    .shape = {outputs},
                    .axes = {},
                    .role = Role::bias,
                    .fan_in = 8,
                    .fan_out = 3,
                    .initialiser = Initialiser::zeros});
    statistics.add({.name = "batch_norm1.mean",
                    .shape = {5},
                    .axes = {},
                    .role = Role::statistic,
                    .fan_in = 0,
                    .fan_out = 0,
                    .initialiser = Initialiser::zeros});
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

inline session::CheckpointHeader sample_header(const SampleModel& model, std::int64_t step = 7) {
  session::CheckpointHeader header;
  header.step = step;
  header.cursor = {.epoch = 1, .step = 3};
  header.optimizer_steps = step;
  header.seed = 0xFFFF'FFFF'FFFF'FFF1;
  header.config = "name = \"größe\"\n";
  header.inputs = {.features = {.channels = 2, .height = 4, .width = 5}, .classes = 3, .target_size = 0};
  header.preprocessing.normalization = {.mean = {0.1F, -2.5F}, .scale = {3, 1e-7F}};
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
  return header;
}

/// A vector of which this rank holds everything. \param layout must outlive it
inline session::StoredVector whole_vector(std::string group, const ParameterLayout& layout, MutableView values) {
  return {.group = std::move(group), .holding = std::make_shared<WholeHolding>(layout), .values = values};
}

/// A rank's part of a vector. \param map must outlive it
inline session::StoredVector divided_vector(std::string group, const ShardMap& map, int rank, MutableView values) {
  static test::LocalSquares unused;
  return {.group = std::move(group), .holding = std::make_shared<MapHolding>(map, rank, unused), .values = values};
}

/// What a rank that holds all of the sample model has in its memory.
struct SampleState {
  const SampleModel& model;
  std::vector<float> parameters, statistics, velocity;

  explicit SampleState(const SampleModel& of)
      : model(of),
        parameters(counted(model.parameters, 1)),
        statistics(counted(model.statistics, 100)),
        velocity(counted(model.parameters, 1000)) {}

  bool operator==(const SampleState& other) const {
    return parameters == other.parameters && statistics == other.statistics && velocity == other.velocity;
  }
  void clear() {
    for (auto* values : {&parameters, &statistics, &velocity}) std::fill(values->begin(), values->end(), 0.0F);
  }
  session::StoredVectors held() {
    return {whole_vector("parameters", model.parameters, parameters),
            whole_vector("statistics", model.statistics, statistics),
            whole_vector("optimizer/0/velocity", model.parameters, velocity)};
  }
};

/// Collective, to its end.
inline void write_checkpoint(comm::Communicator& world, const std::string& path,
                             const session::CheckpointHeader& header, const session::StoredVectors& state) {
  Buffer copy;
  const auto publish = [path](const std::string& aside) { sync_and_rename(aside, path); };
  session::CheckpointWriting writing(world, {.path = path, .publish = publish},
                                     std::make_unique<session::StateContents>(header, state, copy));
  while (!writing.advance()) writing.wait_a_little();
}

/// By one rank, with this step.
inline void write_sample(const std::string& path, const SampleModel& model, std::int64_t step = 7) {
  SampleState state(model);
  write_checkpoint(*comm::make_self_communicator(), path, sample_header(model, step), state.held());
}

/// What is wrong with a file, or nothing.
inline std::string damage_of(const std::string& path) {
  return session::broken_seal(*comm::make_self_communicator(), path, 1);
}

}  // namespace unisono::testing
