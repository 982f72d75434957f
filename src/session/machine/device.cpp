#include "unisono/session/device.hpp"

#include <fmt/format.h>

#include <optional>

#include "machine/reproducible.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/text.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/kernels/compute_device.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::session {
namespace {

/// The GPU of this rank among those that the process sees.
const kernels::CudaDevice* device_of(const kernels::CudaDevices& found, int node_rank) {
  if (found.devices.empty()) return nullptr;
  return &found.devices[static_cast<std::size_t>(node_rank) % found.devices.size()];
}

std::vector<FoundDevice> all_found(comm::Communicator& world, const kernels::CudaDevices& own,
                                   const kernels::CudaDevice* device) {
  const auto hosts = world.all_gather_text(world.host());
  const auto identities = world.all_gather_text(device == nullptr ? "" : device->identity);
  const auto missing = world.all_gather_text(own.missing);
  std::vector<FoundDevice> all;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) all.push_back({hosts[rank], identities[rank], missing[rank]});
  return all;
}

/// What the ranks found when they looked for GPUs.
struct Search {
  std::optional<kernels::CudaDevice> own;  ///< of this rank
  std::string obstacle;
};

Search find_device(comm::Communicator& group, const settings::Config& config, int node_rank) {
  Search search{.own = {}, .obstacle = obstacle_to_gpus(config)};
  if (!search.obstacle.empty()) return search;
  const kernels::CudaDevices found = kernels::find_cuda_devices();
  const kernels::CudaDevice* const device = device_of(found, node_rank);
  search.obstacle = obstacle_to_found(all_found(group, found, device), config.allow_shared_device);
  if (search.obstacle.empty()) search.own = *device;
  return search;
}

}  // namespace

std::string obstacle_to_devices(comm::Communicator& group, const settings::Config& config, int node_rank) {
  return find_device(group, config, node_rank).obstacle;
}

std::string obstacle_to_gpus(const settings::Config& config) {
  if (config.model.kind != "network") {
    return fmt::format("model.kind = \"{}\" can be trained only on CPUs", config.model.kind);
  }
  if (config.whole_batch()) return "whole-batch methods run only on CPUs";
  if (traits_of(config.strategy).shares_model) {
    return fmt::format("strategy.kind = \"{}\" needs threads that share the CPU's memory", config.strategy.kind);
  }
  if (traits_of(config.strategy).only_on_cpus) {
    return fmt::format("strategy.kind = \"{}\" exchanges parameters in the CPU's memory", config.strategy.kind);
  }
  if (config.strategy.replayed_workers > 0) return "a recorded run can be repeated only on CPUs";
  return strategies::make_strategy(config.strategy)->obstacle_to_gpus();
}

std::string obstacle_to_found(const std::vector<FoundDevice>& ranks, bool allow_shared_device) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].identity.empty()) {
      return fmt::format("rank {} (host {}): {}", rank, ranks[rank].host, ranks[rank].missing);
    }
    for (std::size_t other = 0; other < rank && !allow_shared_device; ++other) {
      if (ranks[other].host != ranks[rank].host || ranks[other].identity != ranks[rank].identity) continue;
      return fmt::format(
          "ranks {} and {} would share a GPU of host {}: start no more ranks on a host than it has GPUs, or set "
          "allow_shared_device = true",
          other, rank, ranks[rank].host);
    }
  }
  return "";
}

void require_way_to_device(const settings::Config& config) {
  const std::string obstacle = config.device == settings::DeviceChoice::cuda ? obstacle_to_gpus(config) : "";
  if (obstacle.empty()) return;
  throw ConfigError(
      fmt::format("device = \"{}\": {}; set it to \"cpu\"", name_of(config.device, settings::kDevices), obstacle));
}

std::unique_ptr<kernels::Backend> make_backend(comm::Communicator& group, const settings::Config& config,
                                               const RankMachine& machine, Log& log) {
  const bool is_open = config.device == settings::DeviceChoice::automatic;
  if (config.device == settings::DeviceChoice::cpu) return kernels::make_cpu_backend(machine.threads);
  require_way_to_device(config);
  const Search search = find_device(group, config, machine.node_rank);
  if (search.own) {
    if (is_open) log.info(fmt::format("device = \"auto\": {}", search.own->name));
    auto backend = kernels::make_cuda_backend(search.own->number, config.precision);
    if (auto* const record = dynamic_cast<kernels::DeviceRecord*>(backend.get())) {
      record->say_fallbacks([&log](const std::string& text) { log.info(text); });
    }
    return backend;
  }
  if (!is_open) throw DeviceError(search.obstacle);
  log.info(fmt::format("device = \"auto\": the CPU, in fp32 ({})", search.obstacle));
  return kernels::make_cpu_backend(machine.threads);
}

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
