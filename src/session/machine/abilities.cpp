#include "unisono/session/abilities.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "machine/placement.hpp"
#include "machine/reproducible.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/kernels/compute_device.hpp"
#include "unisono/parallel/pipeline.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::session {
namespace {

/// A config's list with a value for each rank. \throws ConfigError
std::vector<double> for_all_ranks(std::vector<double> given, const settings::Config& config, int ranks,
                                  std::string_view key) {
  const auto count = std::ssize(given);
  if (count == ranks || count == 0) return given;
  if (count != config.replica.stages && count != 1) {
    throw ConfigError(fmt::format("replica.placement.{}: {} for {}; give one for all, for each of them{}", key,
                                  count_of(count, "value"), count_of(ranks, "rank"),
                                  config.replica.stages > 1 ? ", or for each stage" : ""));
  }
  std::vector<double> all;
  const auto tensor = static_cast<int>(config.replica.tensor);
  for (int rank = 0; rank < ranks; ++rank) all.push_back(given[static_cast<std::size_t>(rank / tensor % count)]);
  return all;
}

/// Each rank's numbers.
std::vector<std::vector<double>> gathered(comm::Communicator& group, const std::vector<double>& own) {
  std::vector<std::vector<double>> all;
  for (const std::string& text : group.all_gather_text(fmt::format("{}", fmt::join(own, " ")))) {
    std::istringstream words(text);
    auto& numbers = all.emplace_back();
    for (std::string word; words >> word;) numbers.push_back(std::stod(word));  // "inf", too
  }
  return all;
}

/// What is free, and what the process has already. Ranks that have about the same count as equal: what is free changes
/// from moment to moment.
std::vector<double> found_limits(comm::Communicator& group) {
  constexpr double kEqual = 1.1;
  const double own = free_memory_bytes(group.node_size()) + static_cast<double>(resident_memory_bytes());
  std::vector<double> limits;
  for (const auto& numbers : gathered(group, {own})) limits.push_back(numbers.front());
  const auto [least, most] = std::ranges::minmax(limits);
  if (most <= kEqual * least) std::ranges::fill(limits, least);
  return limits;
}

/// Of one example, by timing micro-batches.
std::vector<std::vector<parallel::PassSeconds>> measured(comm::Communicator& group, const settings::Config& config,
                                                         const models::Model& model, kernels::Backend& backend) {
  constexpr Index kLeast = 1, kMost = 256;
  const std::int64_t parts = std::max<std::int64_t>(config.train.micro_batches, 4);
  const Index batch = std::clamp(config.train.batch_size / parts, kLeast, kMost);
  std::vector<double> own;
  for (const auto& one : parallel::time_segments(*model.staged(), backend, batch)) {
    for (const double seconds : {one.forward, one.backward_inputs, one.backward_weights}) {
      own.push_back(seconds / static_cast<double>(batch));
    }
  }
  std::vector<std::vector<parallel::PassSeconds>> all;
  for (const auto& numbers : gathered(group, own)) {
    auto& segments = all.emplace_back();
    for (std::size_t i = 0; i + 2 < numbers.size(); i += 3) {
      segments.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
    }
  }
  return all;
}

/// Ranks that pretend to be slow are as fast as they pretend, whatever was measured.
void emulate(const settings::Config& config, int ranks, RankAbilities& abilities) {
  const std::vector<double>& speeds = config.fault.emulated_gflops;
  abilities.seconds.clear();
  for (int rank = 0; rank < ranks; ++rank) {
    abilities.gflops.push_back(speeds[std::min(static_cast<std::size_t>(rank), speeds.size() - 1)]);
  }
}

bool leaves_something_open(const settings::Config& config) {
  return config.train.batch_size < 0 || config.train.micro_batches == 0 || config.replica.stages == 0 ||
         config.replica.recompute == parallel::Recompute::automatic ||
         (config.stages() > 1 && config.replica.placement.first_layers.empty());
}

std::string text_of(const PlacedModel& placed, const settings::Config& config, int ranks) {
  const auto number = placed.sizes.micro_batches;
  return fmt::format("placement: {} of {}, {} in {} a step{}{}", count_of(ranks / config.ranks_of_replica(), "replica"),
                     count_of(placed.sizes.stages, "stage"), count_of(placed.sizes.batch_size, "example"),
                     number == 1 ? "1 micro-batch" : fmt::format("{} micro-batches", number),
                     config.replica.recompute == parallel::Recompute::all ? ", activations are computed anew" : "",
                     config.stages() == 1 ? ""
                                          : fmt::format("; stages begin with {}",
                                                        fmt::join(config.replica.placement.first_layers, ", ")));
}

/// Which rank takes each place of the grid; empty: as they are.
std::vector<int> order_of_places(const settings::Config& config, int ranks) {
  const auto& stages = config.replica.placement.ranks;
  std::vector<int> order;
  if (stages.empty() || std::ranges::is_sorted(stages)) return order;
  const auto parts = static_cast<int>(config.replica.tensor);
  for (int place = 0; place < ranks; ++place) {
    const int stage = place / parts % config.stages();
    order.push_back(place + (static_cast<int>(stages[static_cast<std::size_t>(stage)]) - stage) * parts);
  }
  return order;
}

/// Whether the stages are what they are without any choice.
bool as_by_flops(const StagePlan& plan, const settings::Config& config, const PlacedModel& placed) {
  return !config.is_placed_automatically() &&
         parallel::Stages(plan.staged(), config.replica, 1).cuts() == placed.placement.cuts;
}

/// As make_backend decides, but for ranks that would share a GPU. Collective.
bool will_use_gpus(comm::Communicator& group, const settings::Config& config) {
  if (config.device != settings::DeviceChoice::automatic) return config.device == settings::DeviceChoice::cuda;
  const bool can = obstacle_to_gpus(config).empty() && !kernels::find_cuda_devices().devices.empty();
  return group.max(can ? 0 : 1) == 0;
}

/// A config with what was left to the placement.
struct Placed {
  Settled settled;
  std::vector<int> order;  ///< [ranks] the rank of the group that takes each place; empty: as they are
};

/// On the devices that the ranks will use.
settings::Config on_devices(comm::Communicator& group, settings::Config config) {
  if (will_use_gpus(group, config)) config.device = settings::DeviceChoice::cuda;
  return config;
}

Placed placed(comm::Communicator& group, const NodePlace& place, Settled asked,
              const std::function<data::DatasetInfo()>& inspect, Log& log) {
  if (!asked.config.needs_placement()) return {std::move(asked), {}};
  const settings::Config on = on_devices(group, asked.config);
  if (on.device == settings::DeviceChoice::cuda && !on.is_placed_automatically()) return {std::move(asked), {}};
  const data::DatasetInfo data = inspect();
  const settings::Config config = settle(on, data).config;
  Log silent(group.rank(), /*terminal=*/false);
  const auto strategy = strategies::make_strategy(config.strategy);
  const auto backend = kernels::make_cpu_backend(place_rank(group, place, config.train.threads, silent).threads);
  LocalReducer alone;
  const ModelOfRank of_rank(config, inputs_of(data),
                            model_context(*backend, alone, strategy->steps_together(), config));
  const models::Model& model = of_rank.model();
  require_placeable(config, model, *backend);
  require_stages(config, model, *backend, group.size());
  const StagePlan plan(config, model, *backend, data, *strategy,
                       abilities_of(group, config, model, *backend, group.size()));
  const PlacedModel model_on_ranks = place_model(plan, config);
  if (!model_on_ranks.fits()) throw ConfigError(refusal(plan, config, model_on_ranks));
  if (leaves_something_open(config) && !as_by_flops(plan, config, model_on_ranks)) {
    asked = chosen(plan, std::move(asked), model_on_ranks);
    if (group.is_root()) log.info(text_of(model_on_ranks, asked.config, group.size()));
  }
  std::vector<int> order = order_of_places(asked.config, group.size());
  return {std::move(asked), std::move(order)};
}

}  // namespace

int ranks_of(const settings::Config& config, int started) {
  const parallel::PlacementSettings& placement = config.replica.placement;
  const auto named = std::max({std::int64_t{started}, std::ssize(placement.memory), std::ssize(placement.speeds)});
  const std::int64_t of_replica = std::max<std::int64_t>(1, config.replica.stages) * config.replica.tensor;
  const auto ranks = std::max(named, of_replica);
  if (ranks % of_replica == 0) return static_cast<int>(ranks);
  return static_cast<int>(of_replica);
}

RankAbilities abilities_of(comm::Communicator& group, const settings::Config& config, const models::Model& model,
                           kernels::Backend& backend, int ranks) {
  const parallel::PlacementSettings& placement = config.replica.placement;
  RankAbilities abilities{.ranks = group.size(), .process_bytes = group.max(resident_memory_bytes())};
  const bool times = placement.speed == parallel::Speed::measured && placement.speeds.empty();
  if (times && leaves_something_open(config)) abilities.seconds = measured(group, config, model, backend);
  if (placement.memory.empty()) abilities.limits = found_limits(group);
  abilities = on_ranks(std::move(abilities), ranks);
  if (!placement.memory.empty()) abilities.limits = for_all_ranks(placement.memory_bytes(), config, ranks, "memory");
  abilities.gflops = for_all_ranks(placement.speeds, config, ranks, "speed");
  if (abilities.gflops.empty() && !config.fault.emulated_gflops.empty()) emulate(config, ranks, abilities);
  return abilities;
}

void require_placeable(const settings::Config& config, const models::Model& model, kernels::Backend& backend) {
  if (!config.is_placed_automatically()) return;
  const auto refuse = [](const std::string& why) {
    throw ConfigError(fmt::format(
        "replica: {}; give numbers for replica.stages, train.micro_batches and train.batch_size, and remove "
        "replica.recompute and replica.placement",
        why));
  };
  if (model.staged() == nullptr) {
    refuse(fmt::format("model.kind = \"{}\" has no layers that could be placed automatically", config.model.kind));
  }
  if (config.device == settings::DeviceChoice::cuda || backend.device() != nullptr)
    refuse("models are placed automatically only on CPUs so far");
}

void require_stages(const settings::Config& config, const models::Model& model, kernels::Backend& backend, int ranks) {
  const int replicas = settings::grid_shape(config, ranks).data;
  if (config.replica.stages == 0) return;
  if (config.train.micro_batches > 0) make_stages(config, model, backend, replicas);
}

PlacedRanks place_ranks(comm::Communicator& group, const NodePlace& place, Settled asked,
                        const std::function<data::DatasetInfo()>& inspect, Log& log) {
  auto [settled, order] = placed(group, place, std::move(asked), inspect, log);
  std::unique_ptr<comm::Communicator> reordered;
  if (!order.empty()) {
    const auto own = std::ranges::find(order, group.rank());
    reordered = group.split(0, static_cast<int>(own - order.begin()));
  }
  comm::Communicator& ranks = reordered ? *reordered : group;
  return {std::move(settled), std::move(reordered), ranks, group.rank()};
}

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
