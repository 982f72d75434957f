#include "unisono/session/pipeline_figures.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/parallel/pipeline.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/session/stage_report.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

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
  models::ModelContext context = model_context(*backend, reducer, strategy->steps_together(), config);
  context.training_examples = data.train;
  const auto model = models::make_model(config.model, inputs_of(data), context);
  require_placeable(config, *model, *backend);
  const StagePlan plan(config, *model, *backend, data, *strategy,
                       abilities_of(*alone, config, *model, *backend, ranks));
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
  return predicted_timeline(parsed, shapes, std::max(ranks, parsed.stages()), quiet);
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
