#include "unisono/planning/planning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/layer_speeds.hpp"
#include "bench/trial.hpp"
#include "layer_table.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/records/json_line.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/initial_weights.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/session/stage_report.hpp"

namespace unisono::planning {
namespace {

/// The set's info, or that of a hypothetical set with examples of the given shape, which takes no memory.
data::DatasetInfo data_info(const settings::Config& config, const std::optional<SyntheticShape>& shape) {
  const models::ModelInputs inputs = shapes_of(config, shape);
  return shape ? session::set_like(inputs) : data::inspect_dataset(config.data);
}

/// The sparsity on which lock-free training depends, for models whose examples touch only the parameters of their
/// features.
std::optional<data::Sparsity> sparsity_for(const settings::Config& config, const std::optional<SyntheticShape>& shape) {
  if (shape || (config.model.kind != "linear" && config.model.kind != "factorization")) return {};
  return data::sparsity_of(config.data);
}

std::string text_of(const data::Sparsity& sparsity) {
  return fmt::format(
      "sparsity: an example touches at most Ω = {} rows of θ; the most frequent row is touched by a share Δ = {:.3g} "
      "of the examples;\n  share of examples that touch a row of a given example: at most ρ = {:.3g}, on average "
      "{:.3g} (lower is better for lock-free threads)\n",
      sparsity.omega, sparsity.delta, sparsity.rho, sparsity.rho_at_random);
}

/// How the ranks hold the model, where replicas are pipelines or something is left to the placement; else nothing.
struct Placing {
  struct Parts {
    const models::Model& model;
    kernels::Backend& backend;
    const data::DatasetInfo& data;
    const strategies::Strategy& strategy;
  };
  Placing(comm::Communicator& world, const settings::Config& config, const Parts& parts) {
    if (!config.needs_placement()) return;
    const int ranks = session::ranks_of(config, world.size());
    if (ranks < world.size())
      settings::grid_shape(config, world.size());  // says that the stages do not divide the ranks
    session::require_placeable(config, parts.model, parts.backend);
    session::require_stages(config, parts.model, parts.backend, ranks);
    plan.emplace(config, parts.model, parts.backend, parts.data, parts.strategy,
                 session::abilities_of(world, config, parts.model, parts.backend, ranks));
    placed = session::place_model(*plan, config);
    if (!placed->fits()) refusal = session::refusal(*plan, config, *placed);
    if (placed->sizes.stages > 1) report = std::make_unique<session::StageReport>(*plan, *placed);
  }

  settings::Config chosen(const settings::Config& asked) const {
    return placed ? session::chosen(*plan, asked, *placed).config : asked;
  }

  std::optional<session::StagePlan> plan;
  std::optional<session::PlacedModel> placed;
  std::string refusal = {};
  std::unique_ptr<session::StageReport> report = {};
};

/// Where the drawing is to be written; nothing: nowhere. \throws ConfigError on the root, where it cannot be
std::optional<session::TimelineFile> timeline_file(const InfoOptions& options, const comm::Communicator& world) {
  if (!options.timeline) return {};
  const session::TimelineFile file{.path = *options.timeline, .overwrite = options.overwrite};
  if (world.is_root()) file.require_writable();
  return file;
}

/// A rank's threads, and the cores and quotas that they come from. \param open whether a trial decides about them
std::string text_of(const session::RankCores& rank, const session::Placement& placement, bool open) {
  std::string text = fmt::format("{} a rank{}, which may run on {}", count_of(placement.threads, "thread"),
                                 open && placement.threads > 1 ? " (or 1: a short trial at a run's start decides)" : "",
                                 count_of(placement.cores, "core"));
  for (const CpuQuota& quota : rank.quotas) {
    text += fmt::format(", with a CPU quota of {:.4g} cores ({})", quota.cores, quota.group);
  }
  return text + "\n";
}

nlohmann::ordered_json json_of(const session::InitialWeights& weights) {
  nlohmann::ordered_json json = {{"file", weights.path}, {"blocks", nlohmann::ordered_json::array()}};
  for (const session::BlockSource& one : weights.blocks) {
    json["blocks"].push_back({{"block", one.block}, {"shape", one.shape}});
    if (one.from_file) json["blocks"].back()["from"] = one.from;
  }
  json["unused"] = weights.unused;
  return json;
}

std::string text_of(const session::InitialWeights& weights) {
  return fmt::format("weights from {}:\n{}\nnot used: {}\n", weights.path, fmt::join(session::table_of(weights), "\n"),
                     weights.unused.empty() ? "none" : fmt::format("{}", fmt::join(weights.unused, ", ")));
}

/// What is printed.
struct Findings {
  const settings::Config& config;
  const models::Model& model;
  const data::DatasetInfo& data;
  const session::NodePlace& place;
  const session::Placement& placement;
  bool threads_open;  ///< whether a trial decides about the threads
  Index batch;        ///< examples of a micro-batch on a rank
  std::vector<models::LayerSummary> layers;
  const session::StageReport* stages;       ///< null: every rank holds the whole model
  std::string refusal;                      ///< why it does not fit into the ranks' memory; empty: it fits
  std::vector<session::MemoryItem> memory;  ///< of a rank that holds the whole model; empty: none does
  std::optional<data::Sparsity> sparsity;
  std::optional<DeviceTrial> gpu;                  ///< nothing: the config asks for none, or may do without
  std::optional<session::InitialWeights> weights;  ///< nothing: no file gives the model weights
  std::optional<LayerFloors> floors;               ///< of a micro-batch; nothing: they are not wanted
};

nlohmann::ordered_json json_of(const DeviceTrial& gpu) {
  if (!gpu.steps) return {{"obstacle", gpu.obstacle}};
  nlohmann::ordered_json json = to_json(*gpu.steps);
  json["device"] = gpu.device;
  return json;
}

std::string text_of(const DeviceTrial& gpu) {
  if (!gpu.steps) return "GPU: not looked at: " + gpu.obstacle + "\n";
  const std::string engines = engine_table(*gpu.steps);
  return fmt::format("GPU, in steps on random data: {}\n  {}\n{}{}", gpu.device, summary_text(*gpu.steps), engines,
                     engines.empty() ? "" : "\n");
}

nlohmann::ordered_json json_of(const Findings& found) {
  nlohmann::ordered_json json = {{"parameters", found.model.layout().parameters()},
                                 {"flops_per_example", found.model.flops_per_example()}};
  json["peak_memory_bytes"] = found.stages != nullptr ? found.stages->peak_memory_bytes() : session::sum(found.memory);
  json["threads"] = found.placement.threads;
  json["cores"] = found.placement.cores;
  json["cpu_quotas"] = nlohmann::ordered_json::array();
  for (const CpuQuota& quota : found.place.own().quotas) {
    json["cpu_quotas"].push_back({{"cores", quota.cores}, {"group", quota.group}});
  }
  if (found.data.kind == data::SetKind::tokens && found.data.classes > 0) {
    json["cut_texts"] = {{"train", found.data.cut[0]}, {"validation", found.data.cut[1]}, {"test", found.data.cut[2]}};
  }
  json["layers"] = nlohmann::ordered_json::array();
  for (const models::LayerSummary& layer : found.layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"kind", layer.kind},
                              {"output", layer.output},
                              {"parameters", layer.parameters},
                              {"flops_per_example", layer.flops_per_example},
                              {"activation_bytes", layer.activation_bytes}});
  }
  if (found.stages != nullptr) {
    json["stages"] = found.stages->stages_json();
    json["step"] = found.stages->step_json();
  }
  if (!found.refusal.empty()) json["refusal"] = found.refusal;
  for (const session::MemoryItem& part : found.memory) json["memory"][part.what] = part.bytes;
  if (const auto& sparsity = found.sparsity) {
    json["sparsity"] = {{"omega", sparsity->omega},
                        {"delta", sparsity->delta},
                        {"rho", sparsity->rho},
                        {"rho_at_random", sparsity->rho_at_random}};
  }
  if (found.gpu) json["gpu"] = json_of(*found.gpu);
  if (found.weights) json["weights"] = json_of(*found.weights);
  if (found.floors) json["roofline"] = to_json(*found.floors);
  return json;
}

std::string text_of(const Findings& found) {
  std::string text = layer_table(found.layers);
  text += fmt::format("{}, {} flops per example and training step; activations are of a rank's {}\n",
                      count_of(found.model.layout().parameters(), "parameter"),
                      grouped(static_cast<std::int64_t>(found.model.flops_per_example())),
                      count_of(found.batch, "example"));
  for (const std::string& note : found.model.notes()) text += note + "\n";
  if (const std::string cut = session::note_on_cut_texts(found.data); !cut.empty()) text += cut + "\n";
  text += text_of(found.place.own(), found.placement, found.threads_open);
  if (found.sparsity) text += text_of(*found.sparsity);
  if (found.stages != nullptr) text += found.stages->text();
  if (!found.refusal.empty()) text += found.refusal + "\n";
  if (!found.memory.empty()) {
    text += fmt::format("peak memory of a rank{}, predicted: {}\n",
                        found.config.device == settings::DeviceChoice::cpu ? "" : " on a CPU",
                        session::bytes_text(static_cast<double>(session::sum(found.memory))));
  }
  for (const session::MemoryItem& part : found.memory)
    text += fmt::format("  {:32} {:>12}\n", part.what, session::bytes_text(static_cast<double>(part.bytes)));
  if (found.gpu) text += text_of(*found.gpu);
  if (found.weights) text += text_of(*found.weights);
  if (found.floors) {
    text += fmt::format("roofline of a step of {}, or a micro-batch of it:\n{}\n", count_of(found.batch, "example"),
                        table_of(*found.floors));
  }
  text.pop_back();
  return text;
}

/// \param ranks of the run, of which not all need be here
std::optional<DeviceTrial> look_at_device(comm::Communicator& world, const settings::Config& config,
                                          const data::DatasetInfo& data, int ranks, Log& log) {
  if (ranks == world.size()) return try_device(world, config, session::inputs_of(data), log);
  if (config.device == settings::DeviceChoice::cpu) return {};
  return DeviceTrial{.obstacle = fmt::format("the run has {}, of which {} started; start all of them",
                                             count_of(ranks, "rank"), count_of(world.size(), "rank"))};
}

/// What rank 0 prints of the weights that the model begins with.
std::optional<session::InitialWeights> weights_for(const comm::Communicator& world, const settings::Config& config,
                                                   const models::Model& model) {
  if (!world.is_root()) return {};
  return session::initial_weights(config, model);
}

/// Of a rank that holds a whole network, on a CPU. All ranks measure at the same time, and share the memory.
/// Collective.
std::optional<LayerFloors> floors_for(comm::Communicator& world, const settings::Config& config,
                                      const models::Model& model, kernels::Backend& backend, Index batch) {
  require_network(config, model, "info --roofline");
  if (config.stages() > 1 || config.replica.tensor > 1) {
    throw ConfigError("info --roofline: it counts whole models; set replica.stages and replica.tensor to 1");
  }
  if (config.whole_batch()) {
    throw ConfigError(
        fmt::format("info --roofline: it counts steps of mini-batches, but optimizer.kind = \"{}\" passes "
                    "over a whole set; leave it out",
                    config.optimizer.kind));
  }
  world.barrier();
  const double peak = backend.measure_peak_flops_per_second();
  world.barrier();
  return layer_floors(model, backend, {.batch = batch, .states = optim::optimizer_state_vectors(config.optimizer)},
                      peak);
}

/// As a rank with so many threads trains.
settings::Config with_threads(settings::Config config, int threads) {
  if (traits_of(config.strategy).shares_model) config.strategy.threads = threads;
  return config;
}

}  // namespace

void info(comm::Communicator& world, const settings::Config& given, const InfoOptions& options, Log& log) {
  const std::optional<session::TimelineFile> timeline = timeline_file(options, world);
  const data::DatasetInfo data = data_info(given, options.data);
  const settings::Config settled = session::settle(given, data).config;
  const session::NodePlace place(world);
  const session::Placement placement = session::place_rank(world, place, settled, log);
  const settings::Config asked = with_threads(settled, placement.threads);
  const auto strategy = strategies::make_strategy(asked.strategy);
  const auto backend = kernels::make_cpu_backend(placement.threads);
  LocalReducer reducer;
  const models::ModelContext context =
      session::model_context(*backend, reducer, strategy->steps_together(), asked, data);
  const session::ModelOfRank of_rank(asked, session::inputs_of(data), context);
  models::Model* const model = &of_rank.whole();
  const Placing placing(world, asked, {of_rank.model(), *backend, data, *strategy});
  if (timeline && !placing.report) {
    throw ConfigError(
        "--timeline: only a pipeline has one, and here every rank holds the whole model; set replica.stages to 2 or "
        "more");
  }
  const settings::Config config = placing.chosen(asked);
  const int ranks = placing.plan ? placing.plan->abilities().ranks : session::ranks_of(asked, world.size());
  strategies::require_fit(*strategy, *model, ranks);
  const bool by_portions = config.whole_batch() && model->alternating() == nullptr;
  const Index batch = by_portions ? session::examples_of_pass(*strategy, *model, data)
                                  : session::largest_part(config, strategy->workers(ranks / config.ranks_of_replica()));
  std::vector<session::MemoryItem> memory;
  if (config.stages() == 1) {
    const auto parts = static_cast<int>(config.replica.tensor);
    memory = session::predict_memory({.config = config,
                                      .model = of_rank.model(),
                                      .backend = *backend,
                                      .data = data,
                                      .ranks = ranks / parts,
                                      .rank = world.rank() / parts,
                                      .one_node = ranks == world.size() && world.shares_memory(),
                                      .rows = strategy->divide(*model, data, world),
                                      .strategy = *strategy,
                                      .process_bytes = world.max(session::resident_memory_bytes())});
  }
  Log silent(world.rank(), /*terminal=*/false);
  const Findings found{.config = config,
                       .model = *model,
                       .data = data,
                       .place = place,
                       .placement = placement,
                       .threads_open = session::leaves_threads_open(settled, data.kind),
                       .batch = batch,
                       .layers = model->summary(batch),
                       .stages = placing.report.get(),
                       .refusal = placing.refusal,
                       .memory = std::move(memory),
                       .sparsity = sparsity_for(config, options.data),
                       .gpu = look_at_device(world, settled, data, ranks, options.json ? silent : log),
                       .weights = weights_for(world, config, *model),
                       .floors = options.roofline ? floors_for(world, config, *model, *backend, batch) : std::nullopt};
  log.info(options.json ? records::json_line(json_of(found)) : text_of(found));
  if (timeline && world.is_root()) timeline->write(placing.report->svg());
}

}  // namespace unisono::planning
