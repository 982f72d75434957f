#include "unisono/session/rank_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/text.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::session {

void require_same_experiment(comm::Communicator& group, const settings::Config& config) {
  comm::require_same(group, "build", build_hash(), "install the same unisono on all nodes");
  comm::require_same(group, "config", hash_bytes(settings::effective_config(config)),
                     "give every rank the same config file and the same --set");
}

void require_same_instructions(comm::Communicator& group) {
  comm::require_same(
      group, "CPU's instruction set", hash_bytes(kernels::cpu_instruction_set()),
      "give all ranks the environment UNISONO_MAX_ISA=avx2, or portable, so that they compute the same bits");
}

void require_same_data(comm::Communicator& group, const data::DatasetInfo& data) {
  comm::require_same(group, "data set", data.identity, "copy the same file to all nodes, or use a shared one");
}

void require_examples(const settings::Config& config, const ModelParts& parts, Index examples) {
  const std::string need = parts.strategy->need_of_examples(*parts.model);
  const Index ranks = parts.workers(), step = std::min(config.train.batch_size, examples);
  // Fixed parts are cut into micro-batches; else the micro-batches of train.accumulate are cut into parts.
  const bool cuts_first = config.train.accumulate > 1 && config.data.partition != data::Partition::fixed;
  const Index micro_batches = cuts_first ? std::min(config.train.accumulate, step) : 1;
  const Index least = micro_batches * (ranks - 1) + 1;  // so that the largest one has an example for each rank
  if (need.empty() || step >= least) return;
  throw ConfigError(
      fmt::format("train.batch_size: a step has {}{} for {}, and those without examples would {}: {}start fewer ranks",
                  count_of(step, "example"),
                  micro_batches > 1 ? fmt::format(" in {} micro-batches", micro_batches) : "", count_of(ranks, "rank"),
                  need, least <= examples ? fmt::format("raise train.batch_size to {} or more, or ", least) : ""));
}

void require_slow_rank(const settings::Config& config, const ModelParts& parts) {
  const auto rank = static_cast<int>(config.fault.slow_rank);
  const int ranks = parts.grid.all().size();
  if (const auto speeds = std::ssize(config.fault.emulated_gflops); speeds > 1 && speeds != ranks) {
    throw ConfigError(fmt::format("fault.emulated_gflops names {} speeds for {}; give one for each, or one for all",
                                  speeds, count_of(ranks, "rank")));
  }
  if (rank < 0) return;
  if (rank >= ranks) {
    throw ConfigError(fmt::format("fault.slow_rank: there is no rank {}; this run has {}, numbered from 0", rank,
                                  count_of(ranks, "rank")));
  }
  if (!parts.strategy->data_shard(rank, ranks)) {
    throw ConfigError(
        fmt::format("fault.slow_rank: rank {} is a server and does not train; choose another rank", rank));
  }
}

}  // namespace unisono::session
