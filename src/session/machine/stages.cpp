// The parts of a model that is divided into the stages of a pipeline.
#include <fmt/format.h>

#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
#include "unisono/nn/initialiser.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/session/model_parts.hpp"

namespace unisono::session {

namespace {

/// \throws ConfigError where micro-batches cannot pass whole through each replica
void require_whole_micro_batches(const settings::Config& config, int replicas) {
  if (micro_batch_sharing(config, replicas) != data::MicroBatchSharing::sliced) return;
  throw ConfigError(fmt::format(
      "train.micro_batches: {} for {} replicas of {} stages: a micro-batch passes through the stages of one "
      "replica as a whole, so there must be at least as many micro-batches as replicas",
      config.train.micro_batches, replicas, config.stages()));
}

/// GPUs do not sum exactly, so that the norm of a vector that stages share would not have the bits of a single rank's.
void require_no_norms(const settings::Config& config, kernels::Backend& backend) {
  const bool on_gpus = config.device == settings::DeviceChoice::cuda || backend.device() != nullptr;
  const bool clips = config.optimizer.clip_norm != 0;
  if (!on_gpus || !(clips || optim::traits_of(config.optimizer).has_block_rates)) return;
  throw ConfigError(fmt::format(
      "{}: the norms of vectors that are divided among stages are computed only on CPUs so far; {}, or set device = "
      "\"cpu\" or replica.stages = 1",
      clips ? "optimizer.clip_norm" : fmt::format("optimizer.kind = \"{}\"", config.optimizer.kind),
      clips ? "set it to 0" : "choose another one"));
}

}  // namespace

std::unique_ptr<parallel::Stages> make_stages(const settings::Config& config, const models::Model& model,
                                              kernels::Backend& backend, int replicas) {
  if (config.stages() == 1) return nullptr;
  if (model.staged() == nullptr) {
    throw ConfigError(
        fmt::format("replica.stages: model.kind = \"{}\" has no layers that could be divided into stages; set it to 1",
                    config.model.kind));
  }
  require_no_norms(config, backend);
  require_whole_micro_batches(config, replicas);
  return std::make_unique<parallel::Stages>(*model.staged(), config.replica, replicas);
}

namespace {

/// This rank's part of a vector of the replica.
void initialise_part(const ShardMap& map, int rank, SquaresReducer& ranks, std::uint64_t seed, Buffer& part) {
  PlainValues values(part.allocator(), part.view());
  nn::initialise(MapHolding(map, rank, ranks), seed, values.view());
  values.put_back();
}

}  // namespace

void ModelParts::initialise(std::uint64_t seed) {
  if (division != nullptr) return division->initialise(seed, parameters.view());
  if (!stages) return model->initialise(seed, state());
  const int rank = grid.all().rank();
  initialise_part(stages->parameters(), rank, squares, seed, parameters);
  initialise_part(stages->statistics(), rank, squares, seed, statistics);
}

std::vector<float> ModelParts::whole_parameters() {
  std::vector<float> whole(static_cast<std::size_t>(stages ? model->layout().size() : parameters.size()));
  if (stages) {
    PlainValues own(parameters.allocator(), parameters.view());
    comm::redistribute(grid.all(), stages->parameters(), own.view(),
                       ShardMap::whole(model->layout(), grid.all().size()), whole);
  } else {
    parameters.allocator().copy(parameters.view(), whole);
  }
  return whole;
}

namespace {

/// ‖v‖² of a vector of which each of some ranks has parts; on CPUs the same bits however it is divided.
double squared_norm_of(kernels::Backend& backend, View vector, const std::vector<FloatRange>& own,
                       SquaresReducer& ranks) {
  const auto total = [&](bool exactly) {
    ExactSquares sum;
    for (const FloatRange& one : own) {
      const kernels::UpdateRange range{.first = one.first, .last = one.last};
      backend.sum_squares(vector, {&range, 1}, exactly, {&sum, 1});
    }
    ranks.sum({&sum, 1});
    return sum;
  };
  if (const auto settled = total(false).settled_value()) return *settled;
  return total(true).value();
}

}  // namespace

double ModelParts::squared_norm(View vector) {
  if (!stages) return backend->squared_norm(vector);
  if (backend->device() != nullptr) return grid.pipeline().sum(backend->squared_norm(vector));
  return squared_norm_of(*backend, vector, {{0, std::ssize(vector)}}, squares);
}

double ModelParts::squared_gradient_norm(View gradient) {
  if (!state_shards) return squared_norm(gradient);
  return squared_norm_of(*backend, gradient, state_shards->ranges_of(grid.data().rank()), all_squares);
}

std::vector<std::size_t> ModelParts::held_blocks() const {
  std::vector<std::size_t> numbers(replica->layout().blocks().size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = stages ? stages->replica_parameters().shards_of(grid.pipeline().rank())[i].block : i;
  }
  return numbers;
}

}  // namespace unisono::session
