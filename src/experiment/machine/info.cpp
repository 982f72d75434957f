#include "unisono/experiment/info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "machine/memory.hpp"
#include "machine/parts.hpp"
#include "run/progress.hpp"
#include "unisono/base/text.hpp"
#include "unisono/data/sparsity.hpp"

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

nlohmann::ordered_json json_of(const models::Model& model, const std::vector<models::LayerSummary>& layers,
                               const std::vector<MemoryItem>& memory, const std::optional<data::Sparsity>& sparsity) {
  nlohmann::ordered_json json = {{"parameters", model.layout().parameters()},
                                 {"flops_per_example", model.flops_per_example()},
                                 {"peak_memory_bytes", sum(memory)},
                                 {"layers", nlohmann::ordered_json::array()}};
  for (const models::LayerSummary& layer : layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"kind", layer.kind},
                              {"output", layer.output},
                              {"parameters", layer.parameters},
                              {"flops_per_example", layer.flops_per_example},
                              {"activation_bytes", layer.activation_bytes}});
  }
  for (const MemoryItem& part : memory) json["memory"][part.what] = part.bytes;
  if (sparsity) {
    json["sparsity"] = {{"omega", sparsity->omega},
                        {"delta", sparsity->delta},
                        {"rho", sparsity->rho},
                        {"rho_at_random", sparsity->rho_at_random}};
  }
  return json;
}

std::string text_of(const Config& config, const models::Model& model, const std::vector<models::LayerSummary>& layers,
                    Index batch, const std::vector<MemoryItem>& memory, const std::optional<data::Sparsity>& sparsity) {
  std::string text = table_text(layers);
  text += fmt::format("{}, {} flops per example and training step; activations are of a rank's {}\n",
                      count_of(model.layout().parameters(), "parameter"),
                      grouped(static_cast<std::int64_t>(model.flops_per_example())), count_of(batch, "example"));
  for (const std::string& note : model.notes()) text += note + "\n";
  if (sparsity) text += text_of(*sparsity);
  text += fmt::format("peak memory of a rank{}, predicted: {}\n", config.device == DeviceChoice::cpu ? "" : " on a CPU",
                      bytes_text(sum(memory)));
  for (const MemoryItem& part : memory) text += fmt::format("  {:32} {:>12}\n", part.what, bytes_text(part.bytes));
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
  const Index batch = largest_part(config, strategy->workers(world.size()));
  const auto memory = predict_memory({.config = config,
                                      .model = *model,
                                      .backend = *backend,
                                      .data = data,
                                      .ranks = world.size(),
                                      .rank = world.rank(),
                                      .division = strategy->divide(*model, data, world),
                                      .strategy = *strategy,
                                      .process_bytes = world.max(resident_memory_bytes())});
  const auto layers = model->summary(batch);
  const auto sparsity = sparsity_for(config, options.data);
  log.info(options.json ? json_of(*model, layers, memory, sparsity).dump()
                        : text_of(config, *model, layers, batch, memory, sparsity));
}

}  // namespace unisono::experiment
