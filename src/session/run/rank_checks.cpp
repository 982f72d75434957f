#include "unisono/session/rank_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/text.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/session/model_parts.hpp"

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

std::string ranks_text(const settings::Config& config, int ranks, int workers, int stages) {
  const std::string all = count_of(ranks, "rank");
  if (stages > 1) return fmt::format("{} ({} of {})", all, count_of(workers, "replica"), count_of(stages, "stage"));
  if (workers > ranks) return fmt::format("{} that share {}", count_of(workers, "worker"), all);
  if (workers == ranks) return all;
  if (traits_of(config.strategy).divides_features) return all + ", which divide the features,";
  return fmt::format("{}, of which {} {},", all, workers, workers == 1 ? "trains" : "train");
}

std::string local_batch_text(const settings::Config& config, int workers) {
  const std::int64_t batch = config.train.batch_size;
  // A rank takes whole micro-batches, or a slice of each; m cuts of the batch begin at ⌊i · batch / m⌋.
  const bool whole = micro_batch_sharing(config, workers) == data::MicroBatchSharing::whole;
  const std::int64_t cuts = whole ? config.train.micro_batches : workers;
  const auto first_of = [&](std::int64_t rank) { return rank * cuts / workers * batch / cuts; };
  std::int64_t least = batch, most = 0;
  for (int rank = 0; rank < workers; ++rank) {
    const std::int64_t examples = first_of(rank + 1) - first_of(rank);
    least = std::min(least, examples);
    most = std::max(most, examples);
  }
  const std::string all = count_of(batch, "example");
  if (least == most) return fmt::format("{} of {}", grouped(least), all);
  return fmt::format("{} {} {} of {}", grouped(least), most == least + 1 ? "or" : "to", grouped(most), all);
}

}  // namespace unisono::session
