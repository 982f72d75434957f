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

/// One floor for all work of a pass: what a backward pass computes anew is the first part of it.
void add(std::vector<LayerSpeed>& passes, const Floor& floor) {
  const auto same = [&](const LayerSpeed& pass) {
    return pass.floor.node == floor.node && pass.floor.is_backward == floor.is_backward;
  };
  const auto found = std::ranges::find_if(passes, same);
  if (found == passes.end()) {
    passes.push_back({.floor = floor, .seconds = 0});
    return;
  }
  Floor& sum = found->floor;
  sum.flops += floor.flops;
  sum.bytes += floor.bytes;
  sum.arithmetic_seconds += floor.arithmetic_seconds;
  if (floor.memory_seconds > sum.memory_seconds) sum.slowest = floor.slowest;
  sum.memory_seconds += floor.memory_seconds;
}

std::string name_of(const Floor& floor) {
  if (floor.node < 0) return "";
  return floor.is_backward ? "backward" : "forward";
}

double share(double part, double whole) { return whole > 0 ? part / whole : std::nan(""); }

/// A share in percent; nothing of what takes no time.
std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : std::string();
}

/// "memory 21.3 and 14.8"
std::string text_of(const kernels::MemoryLevel& level) {
  return fmt::format("{} {:.4g} and {:.4g}", level.name, level.read * 1e-9, level.write * 1e-9);
}

}  // namespace

double LayerSpeeds::floor_seconds() const {
  double sum = 0;
  for (const LayerSpeed& pass : passes) sum += pass.floor.seconds();
  return sum;
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
  if (trial.parts().model->staged() == nullptr) {
    throw ConfigError(
        fmt::format("bench --layers: model.kind = \"{}\" has no layers; leave --layers out", config.model.kind));
  }
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
  const nn::Network& network = parts.model->staged()->network();
  LayerSpeeds speeds{.roofline = {flops_per_second, parts.backend->measure_memory_levels()}, .passes = {}};
  const auto work = nn::work_of_step(network, *parts.backend, static_cast<Index>(config.train.batch_size));
  for (const Floor& floor : floors_of(work, parts.model->layout().size(), trial.optimizer_states(), speeds.roofline)) {
    add(speeds.passes, floor);
  }
  const BenchTrial::Layers timed = trial.run_with_layers(steps);
  speeds.step_seconds = timed.timing.seconds / static_cast<double>(steps);
  for (LayerSpeed& pass : speeds.passes) {
    const auto node = static_cast<std::size_t>(std::max(0, pass.floor.node));
    const double seconds = pass.floor.node < 0      ? timed.timing.parts.optimizer
                           : pass.floor.is_backward ? timed.seconds.backward[node]
                                                    : timed.seconds.forward[node];
    pass.seconds = seconds / static_cast<double>(steps);
  }
  return speeds;
}

nlohmann::ordered_json to_json(const LayerSpeeds& speeds) {
  nlohmann::ordered_json json = {{"floor_seconds", speeds.floor_seconds()},
                                 {"fraction_of_floor", share(speeds.floor_seconds(), speeds.step_seconds)},
                                 {"memory", nlohmann::ordered_json::array()},
                                 {"passes", nlohmann::ordered_json::array()}};
  for (const kernels::MemoryLevel& level : speeds.roofline.levels) {
    json["memory"].push_back({{"level", level.name},
                              {"read_gigabytes_per_second", level.read * 1e-9},
                              {"write_gigabytes_per_second", level.write * 1e-9}});
    if (std::isfinite(level.capacity)) json["memory"].back()["bytes"] = level.capacity;
  }
  for (const auto& [floor, seconds] : speeds.passes) {
    json["passes"].push_back({{"layer", floor.layer},
                              {"pass", floor.node < 0 ? "update" : name_of(floor)},
                              {"seconds", seconds},
                              {"floor_seconds", floor.seconds()},
                              {"flops", floor.flops},
                              {"bytes", floor.bytes},
                              {"bound", floor.bound()}});
  }
  return json;
}

std::string table_of(const LayerSpeeds& speeds) {
  std::size_t width = 6;
  for (const LayerSpeed& pass : speeds.passes) width = std::max(width, pass.floor.layer.size());
  std::string text = fmt::format("{:{}}  {:8}  {:>9}  {:>9}  {:>8}  {:>8}  {:>10}  {}", "layer", width, "pass", "µs",
                                 "least µs", "reached", "GFLOP/s", "flops/byte", "bound by");
  double sum = 0;
  for (const auto& [floor, seconds] : speeds.passes) {
    sum += seconds;
    if (floor.bytes == 0 || seconds == 0) continue;  // nothing to do, or done elsewhere
    text += fmt::format("\n{:{}}  {:8}  {:>9.1f}  {:>9.1f}  {:>8}  {:>8.1f}  {:>10.2f}  {}", floor.layer, width,
                        name_of(floor), seconds * 1e6, floor.seconds() * 1e6, percent(floor.seconds(), seconds),
                        share(floor.flops, seconds) * 1e-9, floor.flops / floor.bytes, floor.bound());
  }
  text += fmt::format("\n{:{}}  {:8}  {:>9.1f}", "rest", width, "", (speeds.step_seconds - sum) * 1e6);
  text += fmt::format("\n{:{}}  {:8}  {:>9.1f}  {:>9.1f}  {:>8}\nGB/s read and written: ", "step", width, "",
                      speeds.step_seconds * 1e6, speeds.floor_seconds() * 1e6,
                      percent(speeds.floor_seconds(), speeds.step_seconds));
  for (const kernels::MemoryLevel& level : speeds.roofline.levels) {
    text += (&level == speeds.roofline.levels.data() ? "" : "; ") + text_of(level);
  }
  return text;
}

}  // namespace unisono::planning
