#include "unisono/experiment/info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "machine/memory.hpp"
#include "machine/parts.hpp"
#include "run/progress.hpp"
#include "unisono/base/text.hpp"
#include "unisono/data/sparsity.hpp"
#include "unisono/strategies/stage_memory.hpp"

namespace unisono::experiment {
namespace {

/// The set's info, or that of a hypothetical set with examples of the given shape, which takes no memory.
data::DatasetInfo data_info(const Config& config, const std::optional<SyntheticShape>& shape) {
  const models::ModelInputs inputs = shapes_of(config, shape);
  if (!shape) return data::inspect_dataset(config.data);
  data::DatasetInfo info;
  info.features = inputs.features;
  info.classes = inputs.classes;
  info.target_size = inputs.target_size;
  return info;
}

std::string bytes_text(std::int64_t bytes) {
  const double mebi = static_cast<double>(bytes) / (1 << 20);
  return mebi < 1 ? fmt::format("{:.1f} KiB", mebi * 1024) : fmt::format("{:.1f} MiB", mebi);
}

std::string table_text(const std::vector<models::LayerSummary>& layers) {
  std::size_t name = 5, kind = 4, output = 6;
  for (const models::LayerSummary& layer : layers) {
    name = std::max(name, layer.name.size());
    kind = std::max(kind, layer.kind.size());
    output = std::max(output, layer.output.size());
  }
  std::string text = fmt::format("{:{}}  {:{}}  {:{}}  {:>12}  {:>14}  {:>12}\n", "layer", name, "kind", kind, "output",
                                 output, "parameters", "flops/example", "activations");
  for (const models::LayerSummary& layer : layers) {
    text +=
        fmt::format("{:{}}  {:{}}  {:{}}  {:>12}  {:>14}  {:>12}\n", layer.name, name, layer.kind, kind, layer.output,
                    output, grouped(layer.parameters), grouped(static_cast<std::int64_t>(layer.flops_per_example)),
                    bytes_text(layer.activation_bytes));
  }
  return text;
}

/// The sparsity on which lock-free training depends, for models whose examples touch only the parameters of their
/// features.
std::optional<data::Sparsity> sparsity_for(const Config& config, const std::optional<SyntheticShape>& shape) {
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

/// The stages of a pipeline, with what each must hold of θ.
struct StageTable {
  std::unique_ptr<strategies::Stages> stages;        ///< null: every rank holds the whole model
  std::int64_t vectors = 0;                          ///< of θ's size: θ, g, the optimizer's, averaged weights
  std::vector<strategies::StageMemory> memory = {};  ///< of each stage

  std::int64_t vectors_bytes(int stage) const {
    return vectors * stages->replica_parameters().local(stage).size() * static_cast<std::int64_t>(sizeof(float));
  }
  std::int64_t activation_bytes(int stage) const {
    return memory[static_cast<std::size_t>(stage)].floats() * static_cast<std::int64_t>(sizeof(float));
  }
  int flights(int stage) const { return memory[static_cast<std::size_t>(stage)].flights; }
};

/// Of as many replicas as there are ranks for, or of one.
StageTable stages_of(const Config& config, const models::Model& model, kernels::Backend& backend, int ranks) {
  const int replicas = ranks % config.stages() == 0 ? ranks / config.stages() : 1;
  const std::int64_t averages = config.train.weights.average > 0 ? 1 : 0;
  StageTable table{.stages = make_stages(config, model, backend, replicas),
                   .vectors = 2 + optim::optimizer_state_vectors(config.optimizer) + averages};
  if (!table.stages) return table;
  const bool own = micro_batch_sharing(config, replicas) == data::MicroBatchSharing::own;  // each divides its own part
  const std::int64_t micro_batches = config.train.micro_batches;
  const auto most = static_cast<int>(own ? micro_batches : (micro_batches + replicas - 1) / replicas);
  for (int stage = 0; stage < config.stages(); ++stage) {
    table.memory.push_back(
        strategies::memory_of(*table.stages, stage, config.replica, backend, largest_part(config, replicas), most));
  }
  return table;
}

std::string text_of(const StageTable& table) {
  std::string text = fmt::format("{:5}  {:>12}  {:>14}  {:>12}  {:>7}  {:>12}  layers\n", "stage", "parameters",
                                 "flops/example", "θ, g, state", "flights", "activations");
  for (int stage = 0; stage < table.stages->stages(); ++stage) {
    const nn::PieceCost cost = table.stages->cost_of(stage);
    text += fmt::format("{:5}  {:>12}  {:>14}  {:>12}  {:>7}  {:>12}  {}\n", stage, grouped(cost.parameters),
                        grouped(static_cast<std::int64_t>(cost.flops())), bytes_text(table.vectors_bytes(stage)),
                        table.flights(stage), bytes_text(table.activation_bytes(stage)), table.stages->text_of(stage));
  }
  return text;
}

nlohmann::ordered_json json_of(const StageTable& table) {
  auto json = nlohmann::ordered_json::array();
  for (int stage = 0; stage < table.stages->stages(); ++stage) {
    const nn::PieceCost cost = table.stages->cost_of(stage);
    json.push_back({{"layers", table.stages->text_of(stage)},
                    {"parameters", cost.parameters},
                    {"flops_per_example", cost.flops()},
                    {"vectors_bytes", table.vectors_bytes(stage)},
                    {"flights", table.flights(stage)},
                    {"activation_bytes", table.activation_bytes(stage)}});
  }
  return json;
}

/// What is printed.
struct Findings {
  const Config& config;
  const models::Model& model;
  Index batch;  ///< examples of a micro-batch on a rank
  std::vector<models::LayerSummary> layers;
  StageTable stages;
  std::vector<MemoryItem> memory;  ///< of a rank that holds the whole model; empty: none does
  std::optional<data::Sparsity> sparsity;
};

nlohmann::ordered_json json_of(const Findings& found) {
  nlohmann::ordered_json json = {{"parameters", found.model.layout().parameters()},
                                 {"flops_per_example", found.model.flops_per_example()}};
  if (!found.memory.empty()) json["peak_memory_bytes"] = sum(found.memory);
  json["layers"] = nlohmann::ordered_json::array();
  for (const models::LayerSummary& layer : found.layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"kind", layer.kind},
                              {"output", layer.output},
                              {"parameters", layer.parameters},
                              {"flops_per_example", layer.flops_per_example},
                              {"activation_bytes", layer.activation_bytes}});
  }
  if (found.stages.stages) json["stages"] = json_of(found.stages);
  for (const MemoryItem& part : found.memory) json["memory"][part.what] = part.bytes;
  if (const auto& sparsity = found.sparsity) {
    json["sparsity"] = {{"omega", sparsity->omega},
                        {"delta", sparsity->delta},
                        {"rho", sparsity->rho},
                        {"rho_at_random", sparsity->rho_at_random}};
  }
  return json;
}

std::string text_of(const Findings& found) {
  std::string text = table_text(found.layers);
  text += fmt::format("{}, {} flops per example and training step; activations are of a rank's {}\n",
                      count_of(found.model.layout().parameters(), "parameter"),
                      grouped(static_cast<std::int64_t>(found.model.flops_per_example())),
                      count_of(found.batch, "example"));
  for (const std::string& note : found.model.notes()) text += note + "\n";
  if (found.sparsity) text += text_of(*found.sparsity);
  if (found.stages.stages) text += text_of(found.stages);
  if (!found.memory.empty()) {
    text += fmt::format("peak memory of a rank{}, predicted: {}\n",
                        found.config.device == DeviceChoice::cpu ? "" : " on a CPU", bytes_text(sum(found.memory)));
  }
  for (const MemoryItem& part : found.memory)
    text += fmt::format("  {:32} {:>12}\n", part.what, bytes_text(part.bytes));
  text.pop_back();
  return text;
}

}  // namespace

void info(comm::Communicator& world, const Config& given, const InfoOptions& options, Log& log) {
  Config config = given;
  const data::DatasetInfo data = data_info(config, options.data);
  settle(config, data);
  const auto strategy = strategies::make_strategy(config.strategy);
  const auto backend =
      kernels::make_cpu_backend(place_rank(world, NodePlace(world), config.train.threads, log).threads);
  LocalReducer reducer;
  const auto model = models::make_model(config.model, inputs_of(data),
                                        model_context(*backend, reducer, strategy->steps_together(), config));
  StageTable stages = stages_of(config, *model, *backend, world.size());
  const int replicas = stages.stages ? stages.stages->replicas() : world.size();
  const Index batch = largest_part(config, strategy->workers(replicas));
  std::vector<MemoryItem> memory;
  if (!stages.stages) {
    memory = predict_memory({.config = config,
                             .model = *model,
                             .backend = *backend,
                             .data = data,
                             .ranks = world.size(),
                             .rank = world.rank(),
                             .division = strategy->divide(*model, data, world),
                             .strategy = *strategy,
                             .process_bytes = world.max(resident_memory_bytes())});
  }
  const Findings found{.config = config,
                       .model = *model,
                       .batch = batch,
                       .layers = model->summary(batch),
                       .stages = std::move(stages),
                       .memory = std::move(memory),
                       .sparsity = sparsity_for(config, options.data)};
  log.info(options.json ? json_of(found).dump() : text_of(found));
}

}  // namespace unisono::experiment
