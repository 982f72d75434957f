// The parts of a model that is divided into the stages of a pipeline.
#include <fmt/format.h>

#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
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

}  // namespace unisono::session
