#include "unisono/planning/planning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/trial.hpp"
#include "unisono/base/text.hpp"
#include "unisono/parallel/counters.hpp"
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
  if (timing.device) json["gpu"] = to_json(*timing.device);
  if (parts.stages) {
    json["replicas"] = parts.workers();
    json["pipeline"] = to_json(figures_of(config, parts, timing));
  }
  return json;
}

std::string text_of(const nlohmann::ordered_json& report, const settings::Config& config,
                    const session::ModelParts& parts, const BenchTiming& timing) {
  const auto number = [&](const char* key) { return report.at(key).get<double>(); };
  std::string text = fmt::format(
      "{}: {} on {} × {}, {} a step, {}\n"
      "  device      {}\n"
      "  speed       {} examples/s (median step: {})\n"
      "  arithmetic  {:.1f} GFLOP/s, {:.1f} % of the peak of {:.1f} GFLOP/s measured on these ranks\n"
      "  memory      {:.1f} GB/s is the bandwidth measured on these ranks\n  time       ",
      report.at("name").get<std::string>(), report.at("strategy").get<std::string>(),
      parts.stages ? session::ranks_text(config, parts.grid.all().size(), parts.workers(), parts.grid.shape().stages)
                   : count_of(parts.grid.all().size(), "rank"),
      count_of(report.at("threads").get<int>(), "thread"),
      count_of(report.at("batch_size").get<std::int64_t>(), "example"),
      count_of(report.at("steps").get<std::int64_t>(), "step"), report.at("device").get<std::string>(),
      grouped(std::llround(number("examples_per_second"))),
      grouped(std::llround(number("examples_per_second_median_step"))), number("gflops_per_second"),
      100 * number("fraction_of_peak"), number("peak_gflops_per_second"), number("bandwidth_gigabytes_per_second"));
  const auto& seconds = report.at("seconds");
  for (const auto& [part, value] : seconds.items()) {
    const double share = value.get<double>() / std::max(seconds.at("total").get<double>(), 1e-9);
    if (part != "total" && std::abs(share) >= 0.0005) text += fmt::format(" {} {:.1f} %", part, 100 * share);
  }
  if (parts.stages) text += fmt::format("\n  pipeline    {}", to_text(figures_of(config, parts, timing)));
  if (timing.device) text += fmt::format("\n  {}", summary_text(*timing.device));
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
  if (data) {
    const Index targets = data->classes > 0 ? 0 : data->features.size();
    return {.features = data->features, .classes = data->classes, .target_size = targets};
  }
  if (!std::filesystem::exists(config.data.path)) {
    throw DataError(
        fmt::format("{}: there is no such file, so the shape of the examples is unknown; create it, or set --features "
                    "CxHxW and --classes K",
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
  if (inputs.kind != data::SetKind::table) {
    throw ConfigError(fmt::format(
        "{} holds {}, but bench supports only models of tables; train instead, and see the speed in the summary",
        given.data.path, data::name_of(inputs.kind)));
  }
  Log silent(world.rank(), /*terminal=*/false);
  const session::PlacedRanks ranks = session::place_ranks(
      world, session::NodePlace(world), session::settle(with_batch(given, options, world.size()), {}),
      [&inputs] { return session::set_like(inputs); }, options.json ? silent : log);
  const settings::Config& config = ranks.settled.config;
  BenchTrial trial(ranks, inputs, options.json ? silent : log);
  require_cores(world, trial.parts().placement);
  const BenchTiming warm_up = trial.warm_up();
  const auto aimed = static_cast<std::int64_t>(kAimedSeconds / std::max(warm_up.median_step_seconds, 1e-7));
  const BenchTiming timing =
      trial.run(options.steps > 0 ? options.steps : std::clamp<std::int64_t>(aimed, 5, 1'000'000));
  const auto result = report(config, trial, timing, measure_peak(world, *trial.parts().backend));
  log.info(options.json ? result.dump() : text_of(result, config, trial.parts(), timing));
}

}  // namespace unisono::planning
