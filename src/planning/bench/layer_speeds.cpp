#include "bench/layer_speeds.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/models/staged.hpp"
#include "unisono/strategies/catalog.hpp"

namespace unisono::planning {
namespace {

std::string name_of(const Floor& floor) {
  if (floor.node < 0) return "";
  return floor.is_backward ? "backward" : "forward";
}

double share(double part, double whole) { return whole > 0 ? part / whole : std::nan(""); }

/// A share in percent; nothing of what takes no time.
std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : std::string();
}

/// "GB/s read and written: L2 117 and 116; memory 30.1 and 26.3"
std::string text_of(const std::vector<kernels::MemoryLevel>& levels) {
  std::string text;
  for (const kernels::MemoryLevel& level : levels) {
    text += fmt::format("{}{} {:.4g} and {:.4g}", text.empty() ? "GB/s read and written: " : "; ", level.name,
                        level.read * 1e-9, level.write * 1e-9);
  }
  return text;
}

std::size_t width_of(const std::vector<Floor>& passes) {
  std::size_t width = 6;  // of "update"
  for (const Floor& pass : passes) width = std::max(width, pass.layer.size());
  return width;
}

nlohmann::ordered_json json_of(const Floor& floor) {
  return {{"layer", floor.layer},
          {"pass", floor.node < 0 ? "update" : name_of(floor)},
          {"floor_seconds", floor.seconds()},
          {"flops", floor.flops},
          {"bytes", floor.bytes},
          {"bound", floor.bound()}};
}

}  // namespace

double LayerFloors::seconds() const {
  double sum = 0;
  for (const Floor& pass : passes) sum += pass.seconds();
  return sum;
}

void require_network(const settings::Config& config, const models::Model& model, const std::string& option) {
  if (model.staged() != nullptr) return;
  throw ConfigError(
      fmt::format("{}: model.kind = \"{}\" has no layers; leave the option out", option, config.model.kind));
}

LayerFloors layer_floors(const models::Model& model, kernels::Backend& backend, const StepTraits& step,
                         double flops_per_second) {
  LayerFloors floors{.roofline = {flops_per_second, backend.measure_memory_levels()}, .passes = {}};
  const auto work = nn::work_of_step(model.staged()->network(), backend, step.batch, step.at_once);
  floors.passes = floors_of(work, model.layout().size(), step.states, floors.roofline);
  std::erase_if(floors.passes, [](const Floor& pass) { return pass.bytes == 0; });
  return floors;
}

void require_layers(const settings::Config& config, BenchTrial& trial, int ranks) {
  if (ranks > 1) {
    throw LaunchError("bench --layers: it times the layers of one rank alone; start it without mpirun");
  }
  if (trial.on_device()) {
    throw ConfigError("bench --layers: it times layers on CPUs; set device = \"cpu\"");
  }
  if (traits_of(config.strategy).shares_model) {
    throw ConfigError(fmt::format(
        "bench --layers: with strategy.kind = \"{}\" several threads train at the same time; choose another strategy",
        config.strategy.kind));
  }
  require_network(config, *trial.parts().model, "bench --layers");
  if (config.train.micro_batches > 1) {
    throw ConfigError(
        fmt::format("bench --layers: it times steps of one micro-batch, but train.micro_batches = {}; set it to 1, and "
                    "train.batch_size to that of a micro-batch",
                    config.train.micro_batches));
  }
}

LayerSpeeds time_layers(BenchTrial& trial, const settings::Config& config, std::int64_t steps,
                        double flops_per_second) {
  session::ModelParts& parts = trial.parts();
  const BenchTrial::Layers timed = trial.run_with_layers(steps);
  const StepTraits step{.batch = static_cast<Index>(config.train.batch_size),
                        .states = trial.optimizer_states(),
                        .at_once = timed.timing.steps_at_once};
  LayerSpeeds speeds{.floors = layer_floors(*parts.model, *parts.backend, step, flops_per_second), .seconds = {}};
  const auto count = static_cast<double>(steps);
  speeds.step_seconds = timed.timing.seconds / count;
  for (const Floor& pass : speeds.floors.passes) {
    const auto node = static_cast<std::size_t>(std::max(0, pass.node));
    const double of_node = pass.is_backward ? timed.seconds.backward[node] : timed.seconds.forward[node];
    speeds.seconds.push_back((pass.node < 0 ? timed.timing.parts.optimizer : of_node) / count);
  }
  return speeds;
}

nlohmann::ordered_json to_json(const LayerFloors& floors) {
  nlohmann::ordered_json json = {{"peak_gflops_per_second", floors.roofline.flops_per_second * 1e-9},
                                 {"memory", nlohmann::ordered_json::array()},
                                 {"floor_seconds", floors.seconds()},
                                 {"passes", nlohmann::ordered_json::array()}};
  for (const kernels::MemoryLevel& level : floors.roofline.levels) {
    json["memory"].push_back({{"level", level.name},
                              {"read_gigabytes_per_second", level.read * 1e-9},
                              {"write_gigabytes_per_second", level.write * 1e-9}});
    if (std::isfinite(level.capacity)) json["memory"].back()["bytes"] = level.capacity;
  }
  for (const Floor& pass : floors.passes) json["passes"].push_back(json_of(pass));
  return json;
}

nlohmann::ordered_json to_json(const LayerSpeeds& speeds) {
  nlohmann::ordered_json json = to_json(speeds.floors);
  json["step_seconds"] = speeds.step_seconds;
  json["fraction_of_floor"] = share(speeds.floors.seconds(), speeds.step_seconds);
  for (std::size_t i = 0; i < speeds.seconds.size(); ++i) json["passes"][i]["seconds"] = speeds.seconds[i];
  return json;
}

std::string table_of(const LayerFloors& floors) {
  const std::size_t width = width_of(floors.passes);
  std::string text = fmt::format("{:{}}  {:8}  {:>14}  {:>12}  {:>10}  {:>10}  {}", "layer", width, "pass", "flops",
                                 "bytes", "flops/byte", "least µs", "bound by");
  for (const Floor& pass : floors.passes) {
    text += fmt::format("\n{:{}}  {:8}  {:>14}  {:>12}  {:>10.2f}  {:>10.1f}  {}", pass.layer, width, name_of(pass),
                        grouped(std::llround(pass.flops)), grouped(std::llround(pass.bytes)), pass.flops / pass.bytes,
                        pass.seconds() * 1e6, pass.bound());
  }
  return text + fmt::format("\n{:{}}  {:8}  {:>14}  {:>12}  {:>10}  {:>10.1f}\n{:.1f} GFLOP/s; {}", "step", width, "",
                            "", "", "", floors.seconds() * 1e6, floors.roofline.flops_per_second * 1e-9,
                            text_of(floors.roofline.levels));
}

std::string table_of(const LayerSpeeds& speeds) {
  const LayerFloors& floors = speeds.floors;
  const std::size_t width = width_of(floors.passes);
  std::string text = fmt::format("{:{}}  {:8}  {:>9}  {:>9}  {:>8}  {:>8}  {:>10}  {}", "layer", width, "pass", "µs",
                                 "least µs", "reached", "GFLOP/s", "flops/byte", "bound by");
  double sum = 0;
  for (std::size_t i = 0; i < speeds.seconds.size(); ++i) {
    const Floor& pass = floors.passes[i];
    const double seconds = speeds.seconds[i];
    sum += seconds;
    if (seconds == 0) continue;  // done elsewhere
    text += fmt::format("\n{:{}}  {:8}  {:>9.1f}  {:>9.1f}  {:>8}  {:>8.1f}  {:>10.2f}  {}", pass.layer, width,
                        name_of(pass), seconds * 1e6, pass.seconds() * 1e6, percent(pass.seconds(), seconds),
                        pass.flops / seconds * 1e-9, pass.flops / pass.bytes, pass.bound());
  }
  return text + fmt::format("\n{:{}}  {:8}  {:>9.1f}\n{:{}}  {:8}  {:>9.1f}  {:>9.1f}  {:>8}\n{}", "rest", width, "",
                            (speeds.step_seconds - sum) * 1e6, "step", width, "", speeds.step_seconds * 1e6,
                            floors.seconds() * 1e6, percent(floors.seconds(), speeds.step_seconds),
                            text_of(floors.roofline.levels));
}

}  // namespace unisono::planning
