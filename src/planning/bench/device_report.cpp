#include "bench/device_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "unisono/session/placing.hpp"

namespace unisono::planning {
namespace {

using kernels::ConvolutionEngine;
using kernels::DeviceWork;

double per_step(const DeviceSteps& work, std::int64_t DeviceWork::*number) {
  return static_cast<double>(work.after.*number - work.before.*number) / static_cast<double>(work.steps);
}

double times_per_step(const DeviceSteps& work, const ConvolutionEngine& engine) {
  const auto same = [&](const ConvolutionEngine& other) {
    return other.pass == engine.pass && other.convolution == engine.convolution;
  };
  const auto earlier = std::ranges::find_if(work.before.convolutions, same);
  const std::int64_t times = engine.times - (earlier == work.before.convolutions.end() ? 0 : earlier->times);
  return static_cast<double>(times) / static_cast<double>(work.steps);
}

/// "engine 7, compiled at run time"
std::string name_of(const ConvolutionEngine& engine) {
  return fmt::format("engine {}{}{}", engine.engine, engine.last_resort ? ", a last resort" : "",
                     engine.compiled ? ", compiled at run time" : "");
}

/// "38 by engine 1; 19 by engine 70, a last resort"
std::string engines_text(const DeviceSteps& work) {
  std::map<std::string, double> passes;
  for (const ConvolutionEngine& engine : work.after.convolutions) {
    passes[name_of(engine)] += times_per_step(work, engine);
  }
  std::string text;
  for (const auto& [name, times] : passes) {
    text += fmt::format("{}{:.4g} by {}", text.empty() ? "" : "; ", times, name);
  }
  return text;
}

}  // namespace

std::optional<DeviceWork> work_of(const kernels::Backend& backend) {
  const auto* const record = dynamic_cast<const kernels::DeviceRecord*>(&backend);
  if (record == nullptr) return {};
  return record->device_work();
}

std::optional<DeviceSteps> device_steps(std::optional<DeviceWork> before, std::optional<DeviceWork> after,
                                        std::int64_t steps) {
  if (!before || !after) return {};
  return DeviceSteps{.before = std::move(*before), .after = std::move(*after), .steps = steps};
}

nlohmann::ordered_json to_json(const DeviceSteps& work) {
  nlohmann::ordered_json json = {{"software", work.after.software},
                                 {"launches_per_step", per_step(work, &DeviceWork::launches)},
                                 {"graph_launches_per_step", per_step(work, &DeviceWork::graph_launches)},
                                 {"graph_operations_per_step", per_step(work, &DeviceWork::graph_operations)},
                                 {"refused_captures", work.after.refused_captures},
                                 {"products_per_step", per_step(work, &DeviceWork::products)},
                                 {"unfused_products_per_step", per_step(work, &DeviceWork::unfused_products)},
                                 {"convolutions", nlohmann::ordered_json::array()},
                                 {"fallbacks", work.after.fallbacks}};
  for (const ConvolutionEngine& engine : work.after.convolutions) {
    json["convolutions"].push_back({{"pass", engine.pass},
                                    {"convolution", engine.convolution},
                                    {"engine", engine.engine},
                                    {"last_resort", engine.last_resort},
                                    {"compiled", engine.compiled},
                                    {"workspace_bytes", engine.workspace_bytes},
                                    {"times_per_step", times_per_step(work, engine)}});
  }
  return json;
}

std::string summary_text(const DeviceSteps& work) {
  std::string text = fmt::format(
      "software    {}\n"
      "  launches    {:.4g} CUDA graphs a step with {:.4g} operations, and {:.4g} operations outside of graphs\n"
      "  products    {:.4g} a step, of which {:.4g} need another kernel for bias, ReLU or the bias' gradient",
      work.after.software, per_step(work, &DeviceWork::graph_launches), per_step(work, &DeviceWork::graph_operations),
      per_step(work, &DeviceWork::launches), per_step(work, &DeviceWork::products),
      per_step(work, &DeviceWork::unfused_products));
  if (work.after.refused_captures > 0) {
    text += fmt::format("\n  refused     {} sequences of operations could not be recorded as CUDA graphs",
                        work.after.refused_captures);
  }
  if (!work.after.convolutions.empty()) {
    text += "\n  cuDNN       passes of convolutions a step: " + engines_text(work);
  }
  for (const std::string& fallback : work.after.fallbacks) text += "\n  fallback    " + fallback;
  return text;
}

std::string engine_table(const DeviceSteps& work) {
  std::string text;
  for (const ConvolutionEngine& engine : work.after.convolutions) {
    text += fmt::format("{}    {}, {}: {}, {} of workspace, {:.4g} times a step", text.empty() ? "" : "\n",
                        engine.convolution, engine.pass, name_of(engine),
                        session::bytes_text(static_cast<double>(engine.workspace_bytes)), times_per_step(work, engine));
  }
  return text;
}

}  // namespace unisono::planning
