// The parts of a model that is divided into the stages of a pipeline.
#include <fmt/format.h>

#include "machine/parts.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
#include "unisono/nn/initialiser.hpp"

namespace unisono::experiment {

comm::GridShape grid_shape(const Config& config, int ranks) {
  const int stages = config.stages();
  if (ranks % stages != 0) {
    throw ConfigError(fmt::format(
        "replica.stages: {} stages do not divide {}: start a multiple of {} ranks (mpirun -n {} …), or change "
        "replica.stages",
        stages, count_of(ranks, "rank"), stages, ranks < stages ? stages : ranks / stages * stages));
  }
  return {.data = ranks / stages, .stages = stages};
}

namespace {

/// \throws ConfigError where micro-batches cannot pass whole through each replica
void require_whole_micro_batches(const Config& config, int replicas) {
  if (micro_batch_sharing(config, replicas) != data::MicroBatchSharing::sliced) return;
  throw ConfigError(fmt::format(
      "train.micro_batches: {} for {} replicas of {} stages: a micro-batch passes through the stages of one "
      "replica as a whole, so there must be at least as many micro-batches as replicas",
      config.train.micro_batches, replicas, config.stages()));
}

}  // namespace

std::unique_ptr<strategies::Stages> make_stages(const Config& config, const models::Model& model,
                                                kernels::Backend& backend, int replicas) {
  if (config.stages() == 1) return nullptr;
  if (model.staged() == nullptr) {
    throw ConfigError(
        fmt::format("replica.stages: model.kind = \"{}\" has no layers that could be divided into stages; set it to 1",
                    config.model.kind));
  }
  if (backend.device() != nullptr) {
    throw ConfigError("replica.stages: pipelines run only on CPUs so far; set device = \"cpu\", or replica.stages = 1");
  }
  require_whole_micro_batches(config, replicas);
  return std::make_unique<strategies::Stages>(*model.staged(), config.replica, replicas);
}

void ModelParts::initialise(std::uint64_t seed) {
  if (division != nullptr) return division->initialise(seed, parameters.view());
  if (!stages) return model->initialise(seed, state());
  const int rank = grid.all().rank();
  nn::initialise(stages->parameters(), rank, seed, parameters.view());
  nn::initialise(stages->statistics(), rank, seed, statistics.view());
}

std::vector<float> ModelParts::whole_parameters() {
  std::vector<float> whole(static_cast<std::size_t>(stages ? model->layout().size() : parameters.size()));
  if (stages) {
    comm::redistribute(grid.all(), stages->parameters(), parameters.view(),
                       ShardMap::whole(model->layout(), grid.all().size()), whole);
  } else {
    parameters.allocator().copy(parameters.view(), whole);
  }
  return whole;
}

double ModelParts::squared_norm(View vector) {
  if (!stages) return backend->squared_norm(vector);
  const kernels::UpdateRange all{.first = 0, .last = std::ssize(vector)};
  const auto total = [&](bool exactly) {
    ExactSquares sum;
    backend->sum_squares(vector, {&all, 1}, exactly, {&sum, 1});
    squares.sum({&sum, 1});
    return sum;
  };
  if (const auto settled = total(false).settled_value()) return *settled;
  return total(true).value();
}

}  // namespace unisono::experiment
