#include "bench/trial.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/parallel/step_terms.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/device.hpp"
#include "unisono/session/run_checks.hpp"

namespace unisono::planning {
namespace {

constexpr std::int64_t kWarmUpSteps = 8;

/// Records only when steps end.
class StepClock final : public strategies::Observer {
 public:
  bool step(const strategies::StepRecord&) override {
    ends_.push_back(watch_.seconds());
    return true;
  }
  std::int64_t next_due(std::int64_t step) const override { return step + 1; }
  /// The median of the steps' seconds, which single disturbed steps do not affect.
  double median_seconds() const {
    std::vector<double> lengths;
    for (std::size_t i = 1; i < ends_.size(); ++i) lengths.push_back(ends_[i] - ends_[i - 1]);
    if (lengths.empty()) return ends_.empty() ? 0 : ends_.front();
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    return *middle;
  }

 private:
  Stopwatch watch_;
  std::vector<double> ends_;
};

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

BenchTrial::BenchTrial(const session::PlacedRanks& ranks, const models::ModelInputs& inputs, Log& log)
    : world_(ranks.group),
      config_(ranks.settled.config),
      place_(world_),
      parts_({world_, place_, log}, config_, inputs),
      training_(parts_, config_),
      source_(inputs, session::source_options(parts_, config_)),
      fault_(config_.fault, static_cast<std::uint64_t>(config_.seed), ranks.given_rank) {
  session::require_examples(config_, parts_, config_.train.batch_size);
  parts_.initialise(static_cast<std::uint64_t>(config_.seed));
}

BenchTiming BenchTrial::warm_up() {
  const BenchTiming first = run(kWarmUpSteps);
  return on_device() ? run(kWarmUpSteps) : first;
}

BenchTiming BenchTrial::run(std::int64_t steps) {
  const optim::Schedule schedule({}, config_.optimizer.learning_rate, made_ + steps, source_.steps_per_epoch());
  StepClock clock;
  training_.seconds = {};
  training_.counters = {};
  parts_.share_parameters();
  strategies::TrainContext context{session::step_terms(parts_, training_, config_, {source_, made_}),
                                   {.optimizer_settings = config_.optimizer,
                                    .schedule = schedule,
                                    .observer = clock,
                                    .total_steps = made_ + steps,
                                    .threads = parts_.placement.threads},
                                   {},
                                   {}};
  if (config_.fault.is_on()) context.fault = &fault_;
  world_.barrier();
  const auto before = work_of(*parts_.backend);
  const Stopwatch watch;
  parts_.strategy->train(context);
  {
    const parallel::Phase phase(*parts_.backend, training_.seconds, training_.seconds.compute);
    parts_.backend->collect(training_.sums);  // waits for the device's pending work
  }
  std::array<double, 2> slowest = {watch.seconds(), clock.median_seconds()};
  // Where steps end on a device nobody looks.
  if (on_device()) slowest[1] = slowest[0] / static_cast<double>(steps);
  training_.seconds.other = slowest[0] - training_.seconds.sum();
  world_.allreduce_max(std::span<double>(slowest));
  made_ += steps;
  return {.steps = steps,
          .seconds = slowest[0],
          .median_step_seconds = slowest[1],
          .parts = comm::mean_seconds(world_, training_.seconds, parts_.trains()),
          .counters = comm::combine(world_, training_.counters, Shown::in_summary),
          .device = device_steps(before, work_of(*parts_.backend), steps)};
}

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

std::optional<DeviceTrial> try_device(comm::Communicator& world, const settings::Config& config,
                                      const models::ModelInputs& inputs, Log& log) {
  constexpr std::int64_t kSteps = 4;
  if (config.device == settings::DeviceChoice::cpu) return {};
  const std::string obstacle = session::obstacle_to_devices(world, config, session::NodePlace(world).number());
  if (!obstacle.empty()) {
    if (config.device == settings::DeviceChoice::automatic) return {};
    return DeviceTrial{.obstacle = obstacle};
  }
  const session::PlacedRanks ranks = session::place_ranks(
      world, session::NodePlace(world), config, [&inputs] { return session::set_like(inputs); }, log);
  BenchTrial trial(ranks, inputs, log);
  trial.warm_up();
  const BenchTiming timing = trial.run(kSteps);
  return DeviceTrial{.obstacle = "", .device = trial.parts().device(), .steps = timing.device};
}

}  // namespace unisono::planning
