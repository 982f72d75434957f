#include "unisono/session/stage_report.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/parallel/pipeline.hpp"
#include "unisono/parallel/placement.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_plan.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::session {
namespace {

const std::vector<std::string> kVectors = {"parameters and gradient", "optimizer state", "averaged weights"};
const std::vector<std::string> kActivations = {"activations and their gradients"};

parallel::ReplicaSettings by_hand(const StagePlan& plan, const PlacedModel& placed) {
  parallel::ReplicaSettings settings = plan.with(placed.sizes).replica;
  settings.placement.first_layers = plan.first_layers(placed.placement.cuts);
  settings.recompute = placed.placement.recompute;
  return settings;
}

}  // namespace

std::int64_t StageReport::Stage::bytes_of(const std::vector<std::string>& kinds) const {
  std::int64_t bytes = 0;
  for (const MemoryItem& item : memory) {
    if (std::ranges::find(kinds, item.what) != kinds.end()) bytes += item.bytes;
  }
  return bytes;
}

StageReport::StageReport(const StagePlan& plan, const PlacedModel& placed)
    : placed_(placed),
      replicas_(plan.replicas(placed.sizes.stages)),
      forecast_(parallel::forecast(placed.problem, placed.placement)),
      assumes_speed_(plan.abilities().gflops.empty() && plan.abilities().seconds.empty()) {
  const parallel::ReplicaSettings settings = by_hand(plan, placed);
  const parallel::Stages stages(plan.staged(), settings, 1);
  for (int stage = 0; stage < stages.stages(); ++stage) {
    const auto number = static_cast<std::size_t>(stage);
    const int rank = placed.placement.ranks[number];
    stages_.push_back({.layers = stages.text_of(stage),
                       .cost = stages.cost_of(stage),
                       .flights = parallel::flights_of(settings, stage, placed.problem.micro_batches).most,
                       .rank = rank * plan.tensor(),
                       .memory = plan.memory(placed.sizes, placed.placement, stage),
                       .limit = placed.problem.limits[static_cast<std::size_t>(rank)],
                       .busy = forecast_.busy[number]});
  }
}

std::int64_t StageReport::peak_memory_bytes() const {
  std::int64_t most = 0;
  for (const Stage& stage : stages_) most = std::max(most, sum(stage.memory));
  return most;
}

/// A row for each kind of memory, a column for each stage.
std::string StageReport::memory_text() const {
  std::string text = fmt::format("peak memory of a rank, predicted: {}\n", bytes_text(double(peak_memory_bytes())));
  for (const MemoryItem& kind : stages_.front().memory) {
    text += fmt::format("  {:32}", kind.what);
    for (const Stage& stage : stages_) text += fmt::format(" {:>12}", bytes_text(double(stage.bytes_of({kind.what}))));
    text += "\n";
  }
  const auto row = [&](const char* name, const auto& value) {
    text += fmt::format("  {:32}", name);
    for (const Stage& stage : stages_) text += fmt::format(" {:>12}", bytes_text(value(stage)));
    text += "\n";
  };
  row("all", [](const Stage& stage) { return static_cast<double>(sum(stage.memory)); });
  if (std::ranges::all_of(stages_, [](const Stage& stage) { return std::isfinite(stage.limit); })) {
    row("limit of its rank", [](const Stage& stage) { return stage.limit; });
  }
  return text;
}

std::string StageReport::step_text() const {
  std::string text = fmt::format(
      "a step of {} in {} micro-batch{} on {} takes {}, predicted{}; stages wait for {:.1f} % of it",
      count_of(placed_.sizes.batch_size, "example"), placed_.sizes.micro_batches,
      placed_.sizes.micro_batches == 1 ? "" : "es", count_of(replicas_, "replica"), duration_text(forecast_.seconds),
      assumes_speed_ ? fmt::format(" for ranks of {} GFLOP/s", kAssumedGflops) : std::string(), 100 * forecast_.bubble);
  if (forecast_.formula) text += fmt::format("; of equal stages {}", duration_text(*forecast_.formula));
  return text + "\n" + forecast_.timeline;
}

std::string StageReport::text() const {
  std::string text = fmt::format("{:5}  {:>4}  {:>12}  {:>14}  {:>6}  {:>12}  {:>7}  {:>12}  layers\n", "stage", "rank",
                                 "parameters", "flops/example", "share", "θ, g, state", "flights", "activations");
  double flops = 0;
  for (const Stage& stage : stages_) flops += stage.cost.flops();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    text += fmt::format("{:5}  {:>4}  {:>12}  {:>14}  {:>4.1f} %  {:>12}  {:>7}  {:>12}  {}\n", i, stage.rank,
                        grouped(stage.cost.parameters), grouped(static_cast<std::int64_t>(stage.cost.flops())),
                        100 * stage.cost.flops() / std::max(flops, 1.0),
                        bytes_text(static_cast<double>(stage.bytes_of(kVectors))), stage.flights,
                        bytes_text(static_cast<double>(stage.bytes_of(kActivations))), stage.layers);
  }
  text += memory_text() + step_text();
  while (text.ends_with('\n')) text.pop_back();
  return text + "\n";
}

nlohmann::ordered_json StageReport::stages_json() const {
  double flops = 0;
  for (const Stage& stage : stages_) flops += stage.cost.flops();
  auto json = nlohmann::ordered_json::array();
  for (const Stage& stage : stages_) {
    nlohmann::ordered_json one = {{"layers", stage.layers},
                                  {"rank", stage.rank},
                                  {"parameters", stage.cost.parameters},
                                  {"flops_per_example", stage.cost.flops()},
                                  {"flops_share", stage.cost.flops() / std::max(flops, 1.0)},
                                  {"vectors_bytes", stage.bytes_of(kVectors)},
                                  {"flights", stage.flights},
                                  {"activation_bytes", stage.bytes_of(kActivations)},
                                  {"busy_seconds", stage.busy},
                                  {"peak_memory_bytes", sum(stage.memory)}};
    if (std::isfinite(stage.limit)) one["limit_bytes"] = stage.limit;
    for (const MemoryItem& item : stage.memory) one["memory"][item.what] = item.bytes;
    json.push_back(std::move(one));
  }
  return json;
}

nlohmann::ordered_json StageReport::step_json() const {
  nlohmann::ordered_json json = {{"replicas", replicas_},
                                 {"batch_size", placed_.sizes.batch_size},
                                 {"micro_batches", placed_.sizes.micro_batches},
                                 {"recomputes", placed_.placement.recompute == parallel::Recompute::all},
                                 {"fits", placed_.fits()},
                                 {"seconds", forecast_.seconds},
                                 {"bubble", forecast_.bubble}};
  if (forecast_.formula) json["formula_seconds"] = *forecast_.formula;
  double bytes = 0;
  for (const double sent : forecast_.bytes_sent) bytes += sent;
  json["bytes_sent"] = bytes * replicas_;
  return json;
}

PipelineFigures pipeline_figures(const settings::Config& config, int replicas, const PipelineMeasurements& measured) {
  const int micro_batches = micro_batches_of_replica(config, replicas);
  const double passes = measured.seconds.bubble + measured.seconds.compute;
  return {.schedule = name_of(config.replica.schedule, parallel::kPipelineSchedules),
          .stages = config.replica.stages,
          .chunks = config.replica.chunks,
          .micro_batches = micro_batches,
          .bubble = measured.seconds.bubble / std::max(passes, 1e-9),
          .expected_bubble = parallel::expected_bubble(config.replica, micro_batches),
          .bytes_per_step =
              static_cast<double>(measured.boundary_bytes) / std::max(static_cast<double>(measured.steps), 1.0)};
}

nlohmann::ordered_json to_json(const PipelineFigures& figures) {
  return {{"schedule", figures.schedule},
          {"stages", figures.stages},
          {"chunks", figures.chunks},
          {"micro_batches", figures.micro_batches},
          {"bubble", figures.bubble},
          {"expected_bubble", figures.expected_bubble},
          {"boundary_bytes_per_step", figures.bytes_per_step}};
}

std::string to_text(const PipelineFigures& figures) {
  return fmt::format(
      "{}, micro-batches of a replica: {}; stages waited {:.1f} % of the time of their passes, {:.1f} % "
      "by the schedule; {:.3g} MB per step between stages",
      figures.schedule, figures.micro_batches, 100 * figures.bubble, 100 * figures.expected_bubble,
      1e-6 * figures.bytes_per_step);
}

namespace {

/// A drawing (SVG) of how a step of a pipeline goes, as `unisono info --timeline` predicts it.
/// \param config of several stages \param ranks of the run
/// \throws ConfigError where the model cannot be cut as the config says
std::string predicted_timeline(const settings::Config& given, const data::DatasetInfo& data, int ranks, Log& log) {
  const auto alone = comm::make_self_communicator();
  const settings::Config config = settle(given, data).config;
  const auto strategy = strategies::make_strategy(config.strategy);
  const auto backend =
      kernels::make_cpu_backend(place_rank(*alone, NodePlace(*alone), config.train.threads, log).threads);
  LocalReducer reducer;
  const models::ModelContext context = model_context(*backend, reducer, strategy->steps_together(), config, data);
  const ModelOfRank of_rank(config, inputs_of(data), context);
  require_placeable(config, of_rank.model(), *backend);
  const StagePlan plan(config, of_rank.model(), *backend, data, *strategy,
                       abilities_of(*alone, config, of_rank.model(), *backend, ranks));
  return StageReport(plan, place_model(plan, config)).svg();
}

}  // namespace

std::string run_timeline(const std::string& run, const std::string& config, int ranks,
                         const models::ModelKinds& models) {
  Log quiet(0, /*terminal=*/false);
  const settings::Config parsed =
      settings::parse_config({.path = "config.toml", .text = config, .overrides = {}}, models);
  const auto alone = comm::make_self_communicator();
  const data::DatasetInfo shapes = set_like(find_checkpoint(*alone, run, quiet).header.inputs);
  return predicted_timeline(parsed, shapes, std::max(ranks, parsed.ranks_of_replica()), quiet);
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBeginning = "<svg";

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(fmt::format("--timeline {}: {}", path, reason));
}

bool holds_drawing(const std::string& path) {
  std::string found(kBeginning.size(), '\0');
  std::ifstream(path, std::ios::binary).read(found.data(), static_cast<std::streamsize>(found.size()));
  return found == kBeginning;
}

void require_writable_folder(const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    refuse(path, fmt::format("there is no folder {}; make it, or choose another file", folder.string()));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse(path, fmt::format("the folder {} cannot be written: {}; choose another file", folder.string(),
                             std::strerror(errno)));
  }
}

}  // namespace

void TimelineFile::require_writable() const {
  if (path.empty()) throw ConfigError("--timeline: the name of the file is empty");
  require_writable_folder(path);
  std::error_code error;
  const fs::file_type kind = fs::symlink_status(path, error).type();
  if (kind == fs::file_type::not_found && fs::path(path).has_filename()) return;
  if (kind != fs::file_type::regular) {
    refuse(path, "this is not a regular file, so it is not replaced; choose another file");
  }
  if (!overwrite) refuse(path, "already exists; choose another file, or add --overwrite");
  if (!holds_drawing(path)) {
    refuse(path, "exists and is not a drawing (SVG) of this program, so it is not replaced; choose another file");
  }
}

void TimelineFile::write(const std::string& svg) const {
  const std::string reason = records::try_to_write_text_file(path, svg);
  if (reason.empty()) return;
  throw OutputError(fmt::format("--timeline {}: cannot be written: {}; choose another file", path, reason));
}

}  // namespace unisono::session
