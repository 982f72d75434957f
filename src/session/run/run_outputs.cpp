#include "run/run_outputs.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/local_checkpoints.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/session/run_checks.hpp"

namespace unisono::session {
namespace {

records::Progress::Kind progress_kind(Watching watching) {
  if (watching == Watching::automatic)
    watching = records::watching_terminal().empty() ? Watching::lines : Watching::bar;
  if (watching == Watching::none) return records::Progress::Kind::none;
  return watching == Watching::bar ? records::Progress::Kind::bar : records::Progress::Kind::lines;
}

/// \throws ConfigError for settings that make no sense without a folder
void require_possible_without_folder(const settings::Config& config, const RunOptions& options) {
  if (options.existing == records::Existing::resume) {
    throw ConfigError(on_one_line(config.name) + ": a run that writes nothing cannot be resumed; give it a run folder");
  }
  if (config.strategy.record) {
    throw ConfigError(
        "strategy.record: events are recorded in a run folder, but this run writes nothing; set it to "
        "false, or give the run a folder");
  }
}

/// The text of config.toml: a line about the ranks, then the effective config.
std::string config_text(const settings::Config& config, const ModelParts& parts, const std::string& effective) {
  const int ranks = parts.grid.all().size(), workers = parts.workers(), stages = parts.grid.shape().stages;
  if (config.ranks_of_replica() > 1) {
    return fmt::format("# {}: a replica takes {} of each step\n{}", ranks_text(config, ranks, workers, stages),
                       local_batch_text(config, workers), effective);
  }
  const bool all_train = workers == ranks || traits_of(config.strategy).divides_features;
  return fmt::format("# {}{}: a rank takes {} of each step\n{}", count_of(ranks, "rank"),
                     all_train ? "" : fmt::format(", of which {} train", workers), local_batch_text(config, workers),
                     effective);
}

}  // namespace

std::unique_ptr<const records::RunFolder> claim_folder(const comm::Communicator& group, const settings::Config& config,
                                                       const RunOptions& options) {
  const bool in_folder = options.results == Results::in_folder;
  if (!in_folder) require_possible_without_folder(config, options);
  if (!in_folder || !group.is_root()) return nullptr;
  if (!config.checkpoint.local.empty()) require_local_disk(config.checkpoint.local);
  return std::make_unique<records::RunFolder>(config.run_folder(), options.existing);
}

RunOutputs::RunOutputs(const RunPlan& plan, const RunOptions& options)
    : plan_(plan), options_(options), in_folder_(options.results == Results::in_folder), folder_(plan.folder.get()) {}

void RunOutputs::begin(Log& log, const std::vector<std::string>& lines) {
  if (in_folder_ && options_.existing == records::Existing::overwrite)
    forget_memory_copies(plan_.group, records::checkpoints_of(plan_.config.run_folder()));
  if (folder_ && options_.existing == records::Existing::overwrite) {
    forget_local_checkpoints(records::checkpoints_of(folder_->path()));
    folder_->clear();
  }
  if (folder_) log.add_file(folder_->log());
  for (const std::string& line : lines) log.info_to_file(line);
}

void RunOutputs::open(const Opening& opening, CheckpointHeader& header, Log& log) {
  if (!plan_.group.is_root()) return;
  if (folder_) open_folder(opening, header);
  progress_.emplace(progress_kind(options_.watching), log, opening.clock);
  records_.emplace(Records{metrics_ ? &*metrics_ : nullptr, *progress_});
  if (plan_.config.strategy.record) events_.open(folder_->events(), opening.events, header.step);
}

void RunOutputs::open_folder(const Opening& opening, CheckpointHeader& header) {
  const std::uint64_t names = keep_dictionary(plan_.config.data, folder_->dictionary());
  if (header.names == 0) header.names = names;
  records::write_place_of_data(folder_->path(), plan_.config.data.path);
  records::write_text_file(folder_->config(), config_text(plan_.config, opening.parts, header.config));
  metrics_.emplace(folder_->metrics(), header.step, /*evaluated=*/!header.evaluation_due);
  if (plan_.config.metrics.tensorboard) metrics_->add(records::TensorboardLog(folder_->tensorboard(), header.step));
}

bool RunOutputs::is_summarised(std::int64_t steps, bool at_end, bool ends_otherwise) const {
  if (!folder_) return false;
  const auto summary = summary_after(steps, folder_->path());
  const auto status = summary.value("status", nlohmann::ordered_json());
  if (status != "complete" && status != "converged") return false;
  return (ended_by_itself(summary) && !ends_otherwise) || stopped_early_by(summary, plan_.config) ||
         (at_end && !summary.contains("stopped_early"));
}

std::string RunOutputs::way_on(std::int64_t steps) const {
  return folder_ ? session::way_on(summary_after(steps, folder_->path())) : "";
}

void RunOutputs::write(const Summary& summary) {
  if (folder_) records::write_text_file(folder_->summary(), to_json(summary, plan_.config).dump(2) + "\n");
  if (progress_ && summary.ending != Ending::diverged) progress_->line(to_text(summary, plan_.config));
}

}  // namespace unisono::session
