#include "unisono/jobs/trials.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "study/measure.hpp"
#include "trials/trial_job.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/check.hpp"
#include "unisono/session/run.hpp"
#include "unisono/trials/study_analysis.hpp"

namespace unisono::jobs {
namespace {

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

trials::StudyPlan plan_of(const ConfigText& text, const models::ModelKinds& models, const std::string& output,
                          int ranks) {
  trials::StudyPlan plan;
  plan.variants = trials::variants_of(text, models, ranks);
  const settings::Config& serial = plan.variants.front().config;
  plan.name = serial.name;
  plan.folder = output.empty() ? "studies/" + serial.name : output;
  plan.settings = trials::study_of(text, models);
  plan.first_seed = serial.seed;
  if (plan.settings.optimum) plan.optimum = trials::optimum_of(plan.variants.front(), plan.no_optimum);
  plan.metric = metric_of(serial, plan.settings.metric);
  drop_impossible_optimum(plan);
  return plan;
}

/// Finds before the first training what a later one would be refused for. Called on rank 0, which reads the set's
/// metadata alone.
void require_trainable(const trials::StudyPlan& plan, const std::string& path) {
  for (const trials::Variant& variant : plan.variants) {
    try {
      data::inspect_dataset(variant.config.data);
      session::check(variant.config, variant.ranks);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: the study's '{}': {}", path, variant.text(), error.what()));
    }
  }
}

/// Measures a study's trainings, one after the other, on rank 0.
class TrainingMeasures {
 public:
  /// \param progress has the records of earlier trainings \param log of what is read. All must outlive it
  TrainingMeasures(const trials::StudyPlan& plan, const trials::StudyProgress& progress, Log& log)
      : plan_(plan), progress_(progress), log_(log) {}

  /// What a study keeps of a training that has ended, from its run folder.
  trials::StudyRecord record_of(const trials::StudyTraining& training, const session::RunResult& result);

 private:
  void compare(const trials::StudyTraining& training, MeasuredModel model, trials::StudyRecord& record);
  const MeasuredModel* serial(std::int64_t seed);

  const trials::StudyPlan& plan_;
  const trials::StudyProgress& progress_;
  Log& log_;
  std::map<std::int64_t, MeasuredModel> serials_;  ///< of the first seed and of the present one
};

trials::StudyRecord TrainingMeasures::record_of(const trials::StudyTraining& training,
                                                const session::RunResult& result) {
  trials::StudyRecord record{.variant = training.variant->identity, .seed = training.seed, .steps = result.steps};
  if (result.status == session::RunStatus::diverged) {
    record.diverged = true;
    record.message = result.message;
    return record;
  }
  const std::string folder = plan_.run_folder(training);
  MeasuredModel model = measure(folder, plan_.metric, plan_.optimum ? &plan_.variants.front() : nullptr, log_);
  const double examples_per_step = static_cast<double>(model.train) / static_cast<double>(result.steps_per_epoch);
  MeasuredCourse course = course_of(folder, plan_.metric, examples_per_step);
  record.value = model.value;
  record.loss = model.loss;
  record.objective = model.objective;
  record.examples = static_cast<double>(result.steps) * examples_per_step;
  record.seconds = course.seconds;
  record.curve = std::move(course.curve);
  compare(training, std::move(model), record);
  return record;
}

/// With the serial run of the same seed, and a serial run with that of the first one.
void TrainingMeasures::compare(const trials::StudyTraining& training, MeasuredModel model,
                               trials::StudyRecord& record) {
  const bool is_serial = training.variant == &plan_.variants.front();
  const std::int64_t other = is_serial ? plan_.first_seed : training.seed;
  const bool is_first = is_serial && training.seed == plan_.first_seed;
  if (const MeasuredModel* reference = is_first ? nullptr : serial(other))
    record.distance = distance_between(model, *reference);
  if (!is_serial) return;
  std::erase_if(serials_, [&](const auto& one) { return one.first != plan_.first_seed; });
  serials_[training.seed] = std::move(model);
}

/// The serial run of a seed; null where it diverged, or was not made yet.
const MeasuredModel* TrainingMeasures::serial(std::int64_t seed) {
  const trials::StudyTraining training{&plan_.variants.front(), seed};
  const trials::StudyRecord* record = find_record(progress_.records(), training);
  if (record == nullptr || record->diverged) return nullptr;
  const auto known = serials_.find(seed);
  if (known != serials_.end()) return &known->second;
  std::erase_if(serials_, [&](const auto& one) { return one.first != plan_.first_seed; });
  return &(serials_[seed] = measure(plan_.run_folder(training), plan_.metric, nullptr, log_));
}

/// A study from its config to its tables: trainings one after the other, each on the first ranks of the job, while the
/// others sleep; each is measured as soon as it has ended.
class Study final : public TrialJob {
 public:
  /// Collective over the job.
  Study(session::Job& job, const ConfigText& text, const models::ModelKinds& models, const TrialOptions& options);
  session::RunStatus run();

  trials::Plan& plan() override { return progress_; }
  JobFolder folder() const override;
  SlotShape shape() const override { return {.ranks = job_.ranks().size()}; }
  records::TrialResult make(comm::Communicator& group, const records::TrialTask& task, Dispatcher* dispatcher) override;
  void begin(records::Journal& journal) override;
  void resume(const records::Journal& journal) override;
  records::TrialTask task_for(const records::TrialRun& training) override;
  void note_end(records::Journal& journal, const records::TrialRun& training, const records::TrialResult& result,
                double seconds) override;
  void ended(const records::TrialRun& training, const records::TrialResult& result) override;

 private:
  void write_results() const;

  session::Job& job_;
  Log quiet_;          ///< the trainings have log files of their own
  session::Job runs_;  ///< the same ranks
  trials::StudyPlan plan_;
  trials::StudyProgress progress_;
  records::Existing existing_;
  TrainingMeasures measures_;
  std::map<int, comm::Communicator*> groups_;  ///< of the first so many ranks; elsewhere: of the others
};

Study::Study(session::Job& job, const ConfigText& text, const models::ModelKinds& models, const TrialOptions& options)
    : job_(job),
      quiet_(job.ranks().rank(), /*terminal=*/false),
      runs_(job, job.ranks(), quiet_),
      plan_(plan_of(text, models, options.output, job.ranks().size())),
      progress_(plan_),
      existing_(options.existing),
      measures_(plan_, progress_, quiet_) {
  if (job.ranks().is_root()) require_trainable(plan_, text.path);
  for (const trials::StudyTraining& training : progress_.trainings()) {
    const int ranks = training.variant->ranks, own = job.ranks().rank();
    if (!groups_.contains(ranks)) groups_[ranks] = &runs_.split(own < ranks ? 0 : 1, own);
  }
}

JobFolder Study::folder() const {
  return {.path = plan_.folder,
          .journal = records::study_journal_of(plan_.folder),
          .owner = records::FolderOwner::study,
          .existing = existing_,
          .runs = {},
          .results = {"runs", "study.json", "study.md"}};
}

void Study::begin(records::Journal& journal) {
  if (journal.entries().empty()) return journal.append({{"event", "study"}, {"version", 1}});
  if (journal.entries().front().value("event", "") == "study") return;
  throw OutputError(
      fmt::format("{}: holds something else than a study; choose another folder (--output DIR)", plan_.folder));
}

void Study::resume(const records::Journal& journal) {
  for (const nlohmann::json& entry : journal.entries()) {
    if (entry.value("event", "") == "training") progress_.add(trials::study_record_from(entry.at("record")));
  }
  job_.log().info(fmt::format("{}: {} of the serial run and {}, compared by {}; in {}", plan_.name,
                              count_of(std::ssize(progress_.trainings()), "training"),
                              count_of(std::ssize(plan_.variants) - 1, "variant"), plan_.metric.text(), plan_.folder));
}

records::TrialTask Study::task_for(const records::TrialRun& training) {
  const std::string folder = plan_.run_folder(progress_.at(training));
  return {.run = training, .folder = folder, .goes_on = records::holds_run(folder)};
}

records::TrialResult Study::make(comm::Communicator& group, const records::TrialTask& task, Dispatcher*) {
  const trials::StudyTraining& training = progress_.at(task.run);
  if (group.rank() >= training.variant->ranks) return {};
  settings::Config config = training.variant->config;
  config.seed = training.seed;
  config.output = task.folder;
  const session::RunResult run =
      session::run(runs_, *groups_.at(training.variant->ranks), config,
                   {.existing = task.goes_on ? records::Existing::resume : records::Existing::overwrite,
                    .watching = session::Watching::none});
  if (run.status == session::RunStatus::interrupted) return {.status = records::TrialStatus::interrupted};
  if (group.is_root()) progress_.add(measures_.record_of(training, run));
  return {};
}

void Study::note_end(records::Journal& journal, const records::TrialRun&, const records::TrialResult&, double) {
  journal.append({{"event", "training"}, {"record", to_json(progress_.records().back())}});
}

void Study::ended(const records::TrialRun& training, const records::TrialResult&) {
  const trials::StudyTraining& made = progress_.at(training);
  const trials::StudyRecord& record = progress_.records().back();
  const std::string what = fmt::format("{}, seed {}", made.variant->text(), made.seed);
  job_.log().info(record.diverged ? fmt::format("{}: diverged: {}", what, record.message)
                                  : fmt::format("{}: {} {:.4g} after {:.3g} s of training", what, plan_.metric.text(),
                                                record.value, record.training_seconds()));
}

session::RunStatus Study::run() {
  const bool is_complete = run_trials(job_, *this);
  if (!job_.ranks().is_root()) return is_complete ? session::RunStatus::complete : session::RunStatus::interrupted;
  if (!is_complete) {
    job_.log().info(fmt::format("{}: interrupted; go on with --resume", plan_.folder));
    return session::RunStatus::interrupted;
  }
  write_results();
  return session::RunStatus::complete;
}

void Study::write_results() const {
  const trials::StudyResult result = trials::analyse(plan_, progress_.records());
  const std::string json = plan_.folder + "/study.json", markdown = plan_.folder + "/study.md";
  records::write_text_file(json, to_json(plan_, result, progress_.records()).dump(1) + "\n");
  records::write_text_file(markdown, trials::to_markdown(plan_, result));
  job_.log().info("");
  job_.log().info(to_text(plan_, result));
  job_.log().info(fmt::format("{}, {}", markdown, json));
}

}  // namespace

session::RunStatus study(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                         const TrialOptions& options) {
  return Study(job, config, models, options).run();
}

}  // namespace unisono::jobs
