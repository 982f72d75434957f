#include "run/replay.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/records/run_folder.hpp"
#include "unisono/session/run.hpp"

namespace unisono::session {
namespace {

strategies::EventRecord read_repeatable(const std::string& path, const records::EventFileHeader& here) {
  const records::EventFileHeader recorded = records::read_event_header(path);
  const auto require = [&](bool same, const std::string& what) {
    if (!same) throw CheckpointError(fmt::format("{}: cannot be repeated here bit for bit: {}", path, what));
  };
  require(recorded.data_identity == here.data_identity, "the data set is not the one that was recorded");
  require(recorded.build == here.build, "it was recorded with another build of unisono");
  require(recorded.device == here.device,
          fmt::format("it was recorded on {}, but this is {}", recorded.device, here.device));
  require(recorded.layout == here.layout, "the order of the parameters differs");
  strategies::EventRecord record = records::read_events(path);
  require(!record.segments.empty(), "no steps were recorded");
  return record;
}

}  // namespace

Repetition plan_repetition(const std::string& run, const records::EventFileHeader& here, std::int64_t checkpoint,
                           Log& log) {
  Repetition repetition{.events = read_repeatable(records::events_of(run), here)};
  const std::int64_t recorded = repetition.events.segments.back().last;
  repetition.steps = std::min(recorded, checkpoint);
  if (repetition.steps < recorded) {
    log.info(fmt::format(
        "{}: steps up to {} were recorded, but only those up to the newest checkpoint (step {}) are repeated", run,
        recorded, repetition.steps));
  }
  return repetition;
}

void require_repeated(const Summary& summary, const std::string& run_folder) {
  if (!summary.is_complete() || !summary.comparison) return;
  const Comparison& comparison = *summary.comparison;
  if (comparison.step == summary.steps && comparison.different == 0) return;
  throw TrainingError(fmt::format("{}: the repeated run ended at step {} with different parameters: {}", run_folder,
                                  summary.steps, to_text(comparison)));
}

RunResult replay(Job& job, const std::string& path, const std::string& output, const models::ModelKinds& models) {
  const records::EventFileHeader recorded = records::read_event_header(records::events_of(path));
  settings::Config config =
      settings::parse_config({.path = records::events_of(path), .text = recorded.config, .overrides = {}}, models);
  config.output = output.empty() ? path + "/replay" : output;
  config.train.threads = recorded.threads;
  config.fault = {};  // its effect is contained in the order of events
  config.strategy.record = false;
  config.strategy.replayed_workers = recorded.workers;
  config.strategy.replayed_servers = recorded.servers;
  const RunOptions options{.existing = output.empty() ? records::Existing::overwrite : records::Existing::refuse,
                           .watching = Watching::none,
                           .compare_with = path,
                           .replayed = path};
  return run(job, job.ranks(), config, options);
}

}  // namespace unisono::session
