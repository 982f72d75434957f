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

/// A stage of a pipeline.
struct StageRow {
  std::string layers;
  nn::PieceCost cost;
  int flights = 0;
};

std::vector<StageRow> rows_of(const strategies::Stages* stages, const Config& config, const kernels::Backend& backend) {
  std::vector<StageRow> rows;
  for (int stage = 0; stages != nullptr && stage < stages->stages(); ++stage) {
    const strategies::StageMemory memory = strategies::memory_of(*stages, stage, config.replica, backend, 1,
                                                                 micro_batches_of_replica(config, stages->replicas()));
    rows.push_back({stages->text_of(stage), stages->cost_of(stage), memory.flights});
  }
  return rows;
}

std::string text_of(const std::vector<StageRow>& rows) {
  std::string text =
      fmt::format("{:5}  {:>12}  {:>14}  {:>7}  layers\n", "stage", "parameters", "flops/example", "flights");
  for (std::size_t stage = 0; stage < rows.size(); ++stage) {
    const StageRow& row = rows[stage];
    text += fmt::format("{:5}  {:>12}  {:>14}  {:>7}  {}\n", stage, grouped(row.cost.parameters),
                        grouped(static_cast<std::int64_t>(row.cost.flops())), row.flights, row.layers);
  }
  return text;
}

/// A rank's memory, or that of each stage in a column of its own.
std::string text_of(const std::vector<std::vector<MemoryItem>>& memory) {
  const auto line = [&](const std::string& what, const auto& bytes_of) {
    std::string text = fmt::format("  {:32}", what);
    for (const std::vector<MemoryItem>& items : memory) text += fmt::format(" {:>12}", bytes_text(bytes_of(items)));
    return text + "\n";
  };
  std::string text;
  for (std::size_t i = 0; i < memory.front().size(); ++i) {
    text += line(memory.front()[i].what, [i](const std::vector<MemoryItem>& items) { return items[i].bytes; });
  }
  return memory.size() == 1 ? text : text + line("all", [](const auto& items) { return sum(items); });
}

std::int64_t largest(const std::vector<std::vector<MemoryItem>>& memory) {
  std::int64_t most = 0;
  for (const std::vector<MemoryItem>& items : memory) most = std::max(most, sum(items));
  return most;
}

nlohmann::ordered_json json_of(const std::vector<MemoryItem>& memory) {
  nlohmann::ordered_json json;
  for (const MemoryItem& part : memory) json[part.what] = part.bytes;
  return json;
}

/// What is printed.
struct Findings {
  const Config& config;
  const models::Model& model;
  Index batch;  ///< examples of a micro-batch on a rank
  std::vector<models::LayerSummary> layers;
  std::vector<StageRow> stages;                 ///< empty: each rank holds the whole model
  std::vector<std::vector<MemoryItem>> memory;  ///< of each stage, or of a rank
  std::optional<data::Sparsity> sparsity;
};

nlohmann::ordered_json json_of(const Findings& found) {
  nlohmann::ordered_json json = {{"parameters", found.model.layout().parameters()},
                                 {"flops_per_example", found.model.flops_per_example()},
                                 {"peak_memory_bytes", largest(found.memory)},
                                 {"layers", nlohmann::ordered_json::array()}};
  for (const models::LayerSummary& layer : found.layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"kind", layer.kind},
                              {"output", layer.output},
                              {"parameters", layer.parameters},
                              {"flops_per_example", layer.flops_per_example},
                              {"activation_bytes", layer.activation_bytes}});
  }
  if (found.stages.empty()) json["memory"] = json_of(found.memory.front());
  for (std::size_t stage = 0; stage < found.stages.size(); ++stage) {
    const StageRow& row = found.stages[stage];
    json["stages"].push_back({{"layers", row.layers},
                              {"parameters", row.cost.parameters},
                              {"flops_per_example", row.cost.flops()},
                              {"flights", row.flights},
                              {"peak_memory_bytes", sum(found.memory[stage])},
                              {"memory", json_of(found.memory[stage])}});
  }
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
  if (!found.stages.empty()) text += text_of(found.stages);
  text += fmt::format("peak memory of a rank{}, predicted: {}\n",
                      found.config.device == DeviceChoice::cpu ? "" : " on a CPU", bytes_text(largest(found.memory)));
  text += text_of(found.memory);
  text.pop_back();
  return text;
}

}  // namespace

void info(comm::Communicator& world, const Config& given, const InfoOptions& options, Log& log) {
  Config config = given;
  const data::DatasetInfo data = data_info(config, options.data);
  settle(config, data);
  const auto strategy = strategies::make_strategy(config.strategy);
  const int threads = place_rank(world, NodePlace(world), config.train.threads, log).threads;
  const auto backend = kernels::make_cpu_backend(threads);
  LocalReducer reducer;
  const auto model = models::make_model(config.model, inputs_of(data),
                                        model_context(*backend, reducer, strategy->steps_together(), config));
  const bool fits = world.size() % config.stages() == 0;  // otherwise what one replica would be
  const auto stages = make_stages(config, *model, *backend, fits ? world.size() / config.stages() : 1);
  const int replicas = stages ? stages->replicas() : world.size();
  const strategies::Division* division = strategy->divide(*model, data, world);
  const std::int64_t process_bytes = world.max(resident_memory_bytes());
  std::vector<std::vector<MemoryItem>> memory;
  for (int stage = 0; stage < config.stages(); ++stage) {
    const auto own = stages ? kernels::make_cpu_backend(threads) : nullptr;
    memory.push_back(predict_memory({.config = config,
                                     .model = *model,
                                     .backend = own ? *own : *backend,
                                     .data = data,
                                     .ranks = replicas,
                                     .rank = stages ? 0 : world.rank(),
                                     .division = division,
                                     .stages = stages.get(),
                                     .stage = stage,
                                     .strategy = *strategy,
                                     .process_bytes = process_bytes}));
  }
  const Index batch = largest_part(config, strategy->workers(replicas));
  const Findings found{.config = config,
                       .model = *model,
                       .batch = batch,
                       .layers = model->summary(batch),
                       .stages = rows_of(stages.get(), config, *backend),
                       .memory = std::move(memory),
                       .sparsity = sparsity_for(config, options.data)};
  log.info(options.json ? json_of(found).dump() : text_of(found));
}

}  // namespace unisono::experiment
