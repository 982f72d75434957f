#include "machine/reproducible.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/text.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::session {
namespace {

[[noreturn]] void refuse(const std::string& reason) {
  throw ConfigError("communication.reduction = \"reproducible\": " + reason);
}

/// Whether the steps themselves are the same ones on any number of replicas.
void require_common_steps(const settings::Config& config, const ModelParts& parts) {
  if (parts.strategy->updates_in_place(*parts.model)) {
    refuse("this model is updated in place, example by example, so there is no gradient to sum; use \"fast\"");
  }
  if (!parts.strategy->steps_together()) {
    refuse(
        fmt::format("with strategy.kind = \"{}\" the number of ranks changes more than the order of sums; use {}, or "
                    "reduction = \"fast\"",
                    config.strategy.kind, strategies::names_of_kinds([](const strategies::StrategyTraits& traits) {
                      return traits.steps_together && !traits.whole_batch;
                    })));
  }
  if (config.data.partition == data::Partition::fixed) {
    refuse("with data.partition = \"fixed\" each rank has its own order of examples; use \"global\"");
  }
  if (parts.model->statistics_are_local()) {
    refuse(
        "local batch statistics depend on the number of ranks; set the layer's statistics to \"auto\" or \"global\"");
  }
}

void require_micro_batches_to_sum(const settings::Config& config, int replicas) {
  if (config.train.accumulate > 1) {
    refuse("train.accumulate divides each micro-batch among the ranks; use train.micro_batches instead");
  }
  if (config.train.micro_batches < replicas) {
    refuse(
        fmt::format("train.micro_batches = {} is less than the {}, and each micro-batch belongs to one of them as a "
                    "whole; set it to {} or more",
                    config.train.micro_batches, count_of(replicas, "replica"), replicas));
  }
  if (config.communication.leaves < replicas) {
    refuse(
        fmt::format("communication.leaves = {} is less than the {}, of which each needs one leaf or more; set it to "
                    "{} or more, in all runs that are to be compared",
                    config.communication.leaves, count_of(replicas, "replica"), replicas));
  }
}

}  // namespace

void require_reproducible(const settings::Config& config, const ModelParts& parts) {
  if (config.communication.tree_leaves() == 0 || config.whole_batch()) return;  // whose sums always are
  require_common_steps(config, parts);
  require_micro_batches_to_sum(config, parts.grid.data().size());
  if (parts.backend->device() == nullptr) return;
  comm::require_same(
      parts.grid.all(), "GPU", hash_bytes(parts.backend->description()),
      "reproducible sums need GPUs of one kind: use such nodes, or set communication.reduction = \"fast\"");
}

}  // namespace unisono::session
