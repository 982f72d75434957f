#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "bench/layer_speeds.hpp"
#include "bench/trial.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/file_pattern.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/models/staged.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/parallel/step_terms.hpp"
#include "unisono/planning/planning.hpp"
#include "unisono/records/json_line.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/stage_report.hpp"

namespace unisono::planning {
namespace {

constexpr double kAimedSeconds = 3;
constexpr Index kLargestExtent = Index{1} << 16;

/// The measured peak of all ranks together.
struct Peak {
  double flops_per_second = 0, bytes_per_second = 0;
};

Peak measure_peak(comm::Communicator& world, kernels::Backend& backend) {
  Peak peak;
  world.barrier();
  peak.flops_per_second = world.sum(backend.measure_peak_flops_per_second());
  world.barrier();
  peak.bytes_per_second = world.sum(backend.measure_bandwidth_bytes_per_second());
  return peak;
}

void require_cores(comm::Communicator& world, const session::Placement& placement) {
  std::array<std::int64_t, 1> crowded = {placement.threads > placement.cores ? placement.cores : 0};
  world.allreduce_max(std::span<std::int64_t>(crowded));
  if (crowded[0] == 0) return;
  throw LaunchError(
      fmt::format("a rank may use {} but has {}, so the measurement would be meaningless; start with 'mpirun --bind-to "
                  "none', or lower train.threads",
                  count_of(crowded[0], "core"), count_of(placement.threads, "thread")));
}

session::PipelineFigures figures_of(const settings::Config& config, const session::ModelParts& parts,
                                    const BenchTiming& timing) {
  return session::pipeline_figures(config, parts.workers(),
                                   {.seconds = timing.parts,
                                    .boundary_bytes = timing.counters.get<parallel::PipelineCounters>().boundary_bytes,
                                    .steps = timing.steps});
}

nlohmann::ordered_json report(const settings::Config& config, BenchTrial& trial, const BenchTiming& timing,
                              const Peak& peak) {
  session::ModelParts& parts = trial.parts();
  const double rate = static_cast<double>(config.train.batch_size * timing.steps) / timing.seconds;
  const double flops = rate * parts.model->flops_per_example();
  nlohmann::ordered_json json = {{"name", config.name},
                                 {"strategy", config.strategy.kind},
                                 {"ranks", parts.grid.all().size()},
                                 {"threads", parts.placement.threads},
                                 {"device", parts.device()},
                                 {"parameters", parts.model->layout().parameters()},
                                 {"batch_size", config.train.batch_size},
                                 {"steps", timing.steps},
                                 {"examples_per_second", rate},
                                 {"examples_per_second_median_step", static_cast<double>(config.train.batch_size) /
                                                                         std::max(timing.median_step_seconds, 1e-9)},
                                 {"flops_per_example", parts.model->flops_per_example()},
                                 {"gflops_per_second", flops * 1e-9},
                                 {"peak_gflops_per_second", peak.flops_per_second * 1e-9},
                                 {"fraction_of_peak", flops / peak.flops_per_second},
                                 {"bandwidth_gigabytes_per_second", peak.bytes_per_second * 1e-9},
                                 {"seconds", records::to_json(timing.parts)}};
  if (trial.tokens_per_example() > 0) {
    json["tokens_per_second"] = rate * static_cast<double>(trial.tokens_per_example());
  }
  if (timing.device) json["gpu"] = to_json(*timing.device);
  if (parts.grid.shape().stages > 1) {
    json["replicas"] = parts.workers();
    json["pipeline"] = to_json(figures_of(config, parts, timing));
  }
  return json;
}

/// ", 1,472 tokens/s" of a language model, else empty.
std::string tokens_text(const nlohmann::ordered_json& report) {
  const auto found = report.find("tokens_per_second");
  return found == report.end() ? "" : fmt::format(", {} tokens/s", grouped(std::llround(found->get<double>())));
}

std::string text_of(const nlohmann::ordered_json& report, const settings::Config& config,
                    const session::ModelParts& parts, const BenchTiming& timing) {
  const auto number = [&](const char* key) { return report.at(key).get<double>(); };
  std::string text = fmt::format(
      "{}: {} on {} × {}, {} a step, {}\n"
      "  device      {}\n"
      "  speed       {} examples/s{} (median step: {})\n"
      "  arithmetic  {:.1f} GFLOP/s, {:.1f} % of the peak of {:.1f} GFLOP/s measured on these ranks\n"
      "  memory      {:.1f} GB/s is the bandwidth measured on these ranks\n  time       ",
      report.at("name").get<std::string>(), report.at("strategy").get<std::string>(),
      parts.stages ? session::ranks_text(config, parts.grid.all().size(), parts.workers(), parts.grid.shape().stages)
                   : count_of(parts.grid.all().size(), "rank"),
      count_of(report.at("threads").get<int>(), "thread"),
      count_of(report.at("batch_size").get<std::int64_t>(), "example"),
      count_of(report.at("steps").get<std::int64_t>(), "step"), report.at("device").get<std::string>(),
      grouped(std::llround(number("examples_per_second"))), tokens_text(report),
      grouped(std::llround(number("examples_per_second_median_step"))), number("gflops_per_second"),
      100 * number("fraction_of_peak"), number("peak_gflops_per_second"), number("bandwidth_gigabytes_per_second"));
  const auto& seconds = report.at("seconds");
  for (const auto& [part, value] : seconds.items()) {
    const double share = value.get<double>() / std::max(seconds.at("total").get<double>(), 1e-9);
    if (part != "total" && std::abs(share) >= 0.0005) text += fmt::format(" {} {:.1f} %", part, 100 * share);
  }
  if (parts.grid.shape().stages > 1)
    text += fmt::format("\n  pipeline    {}", to_text(figures_of(config, parts, timing)));
  if (timing.device) text += fmt::format("\n  {}", summary_text(*timing.device));
  if (config.ranks_of_replica() == 1) {
    const std::string advice = session::advice_on_hosts(timing.parts, timing.hosts);
    if (!advice.empty()) text += "\n  hosts       " + advice;
  }
  return text;
}

settings::Config with_batch(settings::Config config, const BenchOptions& options, int ranks) {
  if (options.batch_per_rank > 0) config.train.batch_size = options.batch_per_rank * ranks;
  return config;
}

}  // namespace

data::FeatureShape parse_feature_shape(const std::string& text) {
  std::vector<Index> extents;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (bool more = true; more;) {
    Index extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc{} || extent < 1 || extent > kLargestExtent) break;
    extents.push_back(extent);
    more = next != end && *next == 'x';
    at = more ? next + 1 : next;
  }
  if (at == end && extents.size() == 1) return {.channels = extents[0], .height = 1, .width = 1};
  if (at == end && extents.size() == 3) return {.channels = extents[0], .height = extents[1], .width = extents[2]};
  throw ConfigError(
      fmt::format("--features {}: it must be CxHxW (channels, height, width), for example 3x32x32, or a single number; "
                  "each is at most {}",
                  text, kLargestExtent));
}

models::ModelInputs shapes_of(const settings::Config& config, const std::optional<SyntheticShape>& data) {
  if (data && data->vocabulary > 0) {
    if (config.data.context > 0) {
      return {.kind = data::SetKind::tokens,
              .rows = data->vocabulary,
              .classes = data->classes,
              .context = config.data.context};
    }
    throw ConfigError("--vocabulary: set data.context, too, the tokens of an example");
  }
  if (data) {
    const Index targets = data->classes > 0 ? 0 : data->features.size();
    return {.features = data->features, .classes = data->classes, .target_size = targets};
  }
  if (!has_files(config.data.path)) {
    throw DataError(
        fmt::format("{}: there is no such file, so the shape of the examples is unknown; create it, or set --features "
                    "CxHxW and --classes K, or --vocabulary V for tokens",
                    config.data.path));
  }
  return session::inputs_of(data::inspect_dataset(config.data));
}

void bench(comm::Communicator& world, const settings::Config& given, const BenchOptions& options, Log& log) {
  if (given.whole_batch()) {
    throw ConfigError(
        fmt::format("optimizer.kind = \"{}\": bench times steps on random batches, but this method passes over a whole "
                    "set; train instead, and see the speed in the summary",
                    given.optimizer.kind));
  }
  const models::ModelInputs inputs = shapes_of(given, options.data);
  if (!data::has_free_steps(inputs.kind)) {
    throw ConfigError(
        fmt::format("{} holds {}, but bench supports only models of tables and tokens; train instead, and see the "
                    "speed in the summary",
                    given.data.path, data::name_of(inputs.kind)));
  }
  Log silent(world.rank(), /*terminal=*/false);
  const session::PlacedRanks ranks = session::place_ranks(
      world, session::NodePlace(world), session::settle(with_batch(given, options, world.size()), {}),
      [&inputs] { return session::set_like(inputs); }, options.json ? silent : log);
  const settings::Config& config = ranks.settled.config;
  BenchTrial trial(ranks, inputs, options.json ? silent : log);
  require_cores(world, trial.parts().placement);
  if (options.layers) require_layers(config, trial, world.size());
  if (trial.parts().strategy->has_workers(*trial.parts().model)) {
    throw ConfigError(fmt::format(
        "strategy.kind = \"{}\": bench makes batches for one worker on each rank, but here each thread is one; "
        "train instead, and see the speed in the summary",
        config.strategy.kind));
  }
  const BenchTiming warm_up = trial.warm_up();
  const auto aimed = static_cast<std::int64_t>(kAimedSeconds / std::max(warm_up.median_step_seconds, 1e-7));
  const BenchTiming timing =
      trial.run(options.steps > 0 ? options.steps : std::clamp<std::int64_t>(aimed, 5, 1'000'000));
  const Peak peak = measure_peak(world, *trial.parts().backend);
  auto result = report(config, trial, timing, peak);
  std::optional<LayerSpeeds> layers;
  if (options.layers) layers = time_layers(trial, config, timing.steps, peak.flops_per_second);
  if (options.json) {
    if (layers) result["layers"] = to_json(*layers);
    log.info(records::json_line(result));
  } else {
    log.info(text_of(result, config, trial.parts(), timing) + (layers ? "\n\n" + table_of(*layers) : ""));
  }
}

namespace {

constexpr std::int64_t kWarmUpSteps = 8;

/// Records only when steps end. It needs no model before the last step: strategies whose ranks differ would form one
/// after each step otherwise, which no training does.
class StepClock final : public strategies::Observer {
 public:
  StepClock(std::int64_t first_step, std::int64_t last_step, bool reads_gradients)
      : last_step_(last_step), made_(first_step), reads_gradients_(reads_gradients) {}
  bool step(const strategies::StepRecord& record) override {
    const double now = watch_.seconds();
    if (record.step > made_) lengths_.push_back((now - end_) / static_cast<double>(record.step - made_));
    made_ = record.step;
    end_ = now;
    gradient_is_whole_ = record.gradient_is_whole;
    return true;
  }
  std::int64_t next_due(std::int64_t) const override { return last_step_; }
  bool reads_gradient(std::int64_t) const override { return reads_gradients_; }
  bool gradient_is_whole() const { return gradient_is_whole_; }  ///< after the last step
  /// The median of the steps' seconds, which single disturbed steps do not affect.
  double median_seconds() const {
    std::vector<double> lengths(lengths_.begin() + (lengths_.size() > 1 ? 1 : 0), lengths_.end());  // without the start
    if (lengths.empty()) return 0;
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    return *middle;
  }

 private:
  std::int64_t last_step_, made_;
  bool reads_gradients_;
  Stopwatch watch_;
  double end_ = 0;
  std::vector<double> lengths_;  ///< of steps; of several that are one record their mean
  bool gradient_is_whole_ = true;
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
      fault_(config_.fault, static_cast<std::uint64_t>(config_.seed), ranks.given_rank),
      tokens_per_example_(inputs.context) {
  session::require_examples(config_, parts_, config_.train.batch_size);
  parts_.initialise(static_cast<std::uint64_t>(config_.seed));
}

BenchTiming BenchTrial::warm_up() {
  const BenchTiming first = run(kWarmUpSteps);
  return on_device() ? run(kWarmUpSteps) : first;
}

BenchTiming BenchTrial::run(std::int64_t steps, bool updates_follow) {
  const optim::Schedule schedule({}, config_.optimizer.learning_rate, made_ + steps, source_.steps_per_epoch());
  StepClock clock(made_, made_ + steps, updates_follow);
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
          .steps_at_once = !clock.gradient_is_whole(),
          .parts = comm::mean_seconds(world_, training_.seconds, parts_.trains()),
          .hosts = session::hosts_of(world_),
          .counters = comm::combine(world_, training_.counters, Shown::in_summary),
          .device = device_steps(before, work_of(*parts_.backend), steps)};
}

BenchTrial::Layers BenchTrial::run_with_layers(std::int64_t steps) {
  const auto nodes = static_cast<std::size_t>(parts_.model->staged()->network().nodes());
  Layers layers{.timing = {}, .seconds = {std::vector<double>(nodes), std::vector<double>(nodes)}};
  parts_.model->time_layers(&layers.seconds);
  layers.timing = run(steps);
  parts_.model->time_layers(nullptr);
  return layers;
}

int BenchTrial::optimizer_states() const { return static_cast<int>(training_.optimizer->state().size()); }

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
