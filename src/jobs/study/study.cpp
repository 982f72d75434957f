#include "unisono/jobs/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "study/metric.hpp"
#include "study/trainings.hpp"
#include "unisono/base/text.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/records/folder_owner.hpp"
#include "unisono/records/journal.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/check.hpp"
#include "unisono/trials/study_analysis.hpp"

namespace unisono::jobs {
namespace {

namespace fs = std::filesystem;

trials::StudyPlan plan_of(const ConfigText& text, const StudyOptions& options, int ranks) {
  trials::StudyPlan plan;
  plan.ways = trials::ways_of(text, options.models, ranks);
  const settings::Config& serial = plan.ways.front().config;
  plan.name = serial.name;
  plan.folder = options.output.empty() ? "studies/" + serial.name : options.output;
  plan.settings = trials::study_of(text, options.models);
  plan.first_seed = serial.seed;
  if (plan.settings.optimum) plan.optimum = trials::way_to_optimum(plan.ways.front(), plan.no_optimum);
  return plan;
}

/// Finds before the first training what a later one would be refused for. Called on rank 0, which reads the set's
/// metadata alone.
void require_trainable(const trials::StudyPlan& plan, const std::string& path) {
  for (const trials::Way& way : plan.ways) {
    try {
      data::inspect_dataset(way.config.data);
      session::check(way.config, way.ranks);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: the study's '{}': {}", path, way.text(), error.what()));
    }
  }
}

/// The minimum is a help, which not every linear model has.
void drop_impossible_optimum(trials::StudyPlan& plan) {
  if (!plan.optimum) return;
  try {
    session::check(plan.optimum->config);
  } catch (const ConfigError& error) {
    plan.no_optimum = error.what();
    plan.optimum.reset();
  }
}

/// The files of a study, on rank 0.
class StudyFolder {
 public:
  StudyFolder(const std::string& path, const StudyOptions& options) : path_(path) {
    const bool is_there = records::owner_of(path_) == records::FolderOwner::study;
    const records::Existing existing = options.resume      ? records::Existing::resume
                                       : options.overwrite ? records::Existing::overwrite
                                                           : records::Existing::refuse;
    require_owner(path_, records::FolderOwner::study, existing, is_there);
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) throw OutputError(fmt::format("{}: cannot be created: {}", path_, error.message()));
    if (options.overwrite && is_there) clear();
    journal_ = std::make_unique<records::Journal>(journal());
    if (journal_->entries().empty()) journal_->append({{"event", "study"}, {"version", 1}});
    require_study();
  }

  std::vector<trials::StudyRecord> records() const {
    std::vector<trials::StudyRecord> records;
    for (const nlohmann::json& entry : journal_->entries()) {
      if (entry.value("event", "") == "training") records.push_back(trials::study_record_from(entry.at("record")));
    }
    return records;
  }

  void append(const trials::StudyRecord& record) {
    journal_->append({{"event", "training"}, {"record", to_json(record)}});
  }

  void write(const trials::StudyPlan& plan, const std::vector<trials::StudyRecord>& records) const {
    const trials::StudyResult result = trials::analyse(plan, records);
    records::write_text_file(path_ + "/study.json", to_json(plan, result, records).dump(1) + "\n");
    records::write_text_file(path_ + "/study.md", trials::to_markdown(plan, result));
  }

 private:
  std::string journal() const { return records::study_journal_of(path_); }

  /// Nothing but what a study has written.
  void clear() const {
    { const records::Journal locked(journal(), true); }  // no other process writes it
    std::error_code error;
    for (const char* name : {"runs", "study.json", "study.md", "journal.txt"}) {
      fs::remove_all(fs::path(path_) / name, error);
      if (error) throw OutputError(fmt::format("{}/{}: cannot be removed: {}", path_, name, error.message()));
    }
  }

  void require_study() const {
    if (journal_->entries().empty()) return;  // just begun
    if (journal_->entries().front().value("event", "") == "study") return;
    throw OutputError(
        fmt::format("{}: holds something else than a study; choose another folder (--output DIR)", path_));
  }

  std::string path_;
  std::unique_ptr<records::Journal> journal_;
};

std::string line_about(const trials::StudyPlan& plan, const trials::StudyTraining& training,
                       const trials::StudyRecord& record) {
  const std::string what = fmt::format("{}, seed {}", training.way->text(), training.seed);
  if (record.diverged) return fmt::format("{}: diverged: {}", what, record.message);
  return fmt::format("{}: {} {:.4g} after {:.3g} s of training", what, plan.metric.text(), record.value,
                     record.training_seconds());
}

}  // namespace

bool study(comm::Communicator& world, const ConfigText& text, const StudyOptions& options, Log& log) {
  trials::StudyPlan plan = plan_of(text, options, world.size());
  plan.metric = metric_of(plan.ways.front().config, plan.settings.metric);
  drop_impossible_optimum(plan);
  std::unique_ptr<StudyFolder> folder;
  std::vector<trials::StudyRecord> records;
  if (world.is_root()) {
    require_trainable(plan, text.path);
    folder = std::make_unique<StudyFolder>(plan.folder, options);
    records = folder->records();
  }
  world.barrier();  // nothing is done before rank 0 has looked

  const auto total = std::ssize(trials::trainings_of(plan));
  log.info(fmt::format("{}: {} of the serial run and {}, compared by {}; in {}", plan.name, count_of(total, "training"),
                       count_of(std::ssize(plan.ways) - 1, "variant"), plan.metric.text(), plan.folder));
  Log quiet(world.rank(), /*terminal=*/false);  // the trainings have log files of their own
  session::Job job(world, quiet, {.heeds_signals = true});
  StudyTrainings trainings(job, plan, std::move(records), quiet);
  const bool is_complete =
      trainings.make([&](const trials::StudyTraining& training, const trials::StudyRecord& record) {
        folder->append(record);
        log.info(line_about(plan, training, record));
      });
  if (!is_complete) {
    log.info(fmt::format("{}: interrupted; go on with --resume", plan.folder));
    return false;
  }
  if (world.is_root()) {
    folder->write(plan, trainings.records());
    log.info("");
    log.info(to_text(plan, trials::analyse(plan, trainings.records())));
    log.info(fmt::format("{}/study.md, {}/study.json", plan.folder, plan.folder));
  }
  world.barrier();
  return true;
}

}  // namespace unisono::jobs
