#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trials/trial_job.hpp"
#include "unisono/apply/answers.hpp"
#include "unisono/apply/trained_model.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/resources.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/jobs/jobs.hpp"
#include "unisono/models/objective.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/model_examples.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/run.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/run_plan.hpp"
#include "unisono/session/simulate.hpp"
#include "unisono/trials/study_analysis.hpp"
#include "unisono/trials/study_plan.hpp"

namespace unisono::jobs {
namespace {

// What a study measures of trainings, from their folders. Always on the CPU and by one rank, so that models with the
// same bits give the same figures however they were trained. Nothing here is collective.
/// A trained model, for comparisons.
struct MeasuredModel {
  std::vector<float> parameters;   ///< θ, without the sums that some update rules keep in it
  std::vector<float> predictions;  ///< [n, outputs] for the first 10,000 examples; empty for models of words and tokens
  Index outputs = 1;
  std::optional<records::ClassReading> classes = {};  ///< how to read a class from the outputs
  double value = trials::kUnknown, loss = trials::kUnknown, objective = trials::kUnknown;  ///< see StudyRecord
  std::int64_t train = 0;                                                                  ///< training examples
};

/// The seconds of a run, and the metric during it, from its metrics.jsonl.
struct MeasuredCourse {
  Seconds seconds;
  std::vector<trials::CurvePoint> curve;
};

constexpr std::int64_t kMostPredictions = 10000;

std::vector<float> parameters_without_state(const session::ModelParts& parts) {
  const View values = parts.parameters.view();
  std::vector<float> kept;
  for (const Block& block : parts.model->layout().blocks()) {
    if (block.role == Role::state || block.size() == 0) continue;
    const std::size_t before = kept.size();
    kept.resize(before + static_cast<std::size_t>(block.size()));
    const View stored =
        values.subspan(static_cast<std::size_t>(block.offset), static_cast<std::size_t>(block.stored_size()));
    to_canonical(block, stored, MutableView(kept).subspan(before));
  }
  return kept;
}

std::vector<float> predictions_of(apply::TrainedModel& model) {
  std::vector<float> predictions;
  const data::SetKind kind = (*model.data)->info().kind;
  const bool of_words = kind == data::SetKind::text || kind == data::SetKind::cooccurrences;
  const bool of_next_tokens = kind == data::SetKind::tokens && model.checkpoint.header.inputs.classes == 0;
  if (of_words || of_next_tokens) return predictions;
  session::ModelParts& parts = *model.parts;
  const auto source =
      (*model.data)->evaluate(model.split, 0, 1, model.config.train.evaluation_batch_size, parts.delivery());
  const auto outputs = static_cast<std::size_t>(parts.model->output_size());
  for (std::int64_t done = 0; done < kMostPredictions;) {
    const auto batch = source->next();
    if (!batch) break;
    std::vector<float> rows(static_cast<std::size_t>(batch->size) * outputs);
    parts.model->predict(*batch, parts.state(), rows);
    predictions.insert(predictions.end(), rows.begin(), rows.end());
    done += batch->size;
  }
  return predictions;
}

double value_of(const std::vector<models::Metric>& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics, name, &models::Metric::name);
  return found == metrics.end() ? trials::kUnknown : found->value;
}

/// R(θ) of the serial run's objective.
double penalty_of(apply::TrainedModel& model, const optim::OptimizerSettings& optimizer) {
  session::ModelParts& parts = *model.parts;
  const models::Objective objective(
      *parts.model, *parts.backend, **model.data,
      {.weight_decay = optimizer.weight_decay, .decay = optimizer.decay, .delivery = parts.delivery()});
  const View values = parts.parameters.view();
  double sum = 0;
  for (const models::PenalisedRange& one : objective.penalties()) {
    for (Index i = one.range.first; i < one.range.last; ++i) {
      const double value = values[static_cast<std::size_t>(i)];
      sum += one.l1 * std::abs(value) + 0.5 * one.l2 * value * value;
    }
  }
  return sum;
}

/// By what a study compares. \param wanted StudySettings::metric \throws ConfigError for a metric that the model or the
/// set does not have; DataError where there is no set
trials::StudyMetric metric_of(const settings::Config& config, const std::string& wanted) {
  const data::DatasetInfo data = data::inspect_dataset(config.data);
  if (wanted == "auto") {
    const data::Split split = session::watched_split(data);
    if (session::examples_of(data, split) == 0) {
      throw ConfigError(
          config.data.path +
          " has neither validation nor test examples, by which a study could compare; hold some back with "
          "data.validation_fraction = 0.1");
    }
    const models::Metric metric = session::decisive(session::possible_metrics(config, data, split));
    return {split, metric.name, metric.larger_is_better};
  }
  const auto [named, name] = records::split_and_metric(wanted);
  const data::Split split = named.value_or(session::watched_split(data));
  const std::string what = fmt::format("study.metric = \"{}\"", wanted);
  if (session::examples_of(data, split) == 0) {
    throw ConfigError(fmt::format("{}: {} has no {} examples", what, config.data.path, data::name_of(split)));
  }
  const std::vector<models::Metric> metrics = session::possible_metrics(config, data, split);
  const models::Metric* const metric = models::find_metric(metrics, name);
  if (metric == nullptr)
    throw ConfigError(
        fmt::format("{}: this model has no such metric; it has {}; write it as in \"validation.accuracy\"", what,
                    session::metric_names(metrics)));
  return {split, metric->name, metric->larger_is_better};
}

/// \param serial for the objective, which is the serial run's; null: it is not wanted
MeasuredModel measure(const std::string& run, const trials::StudyMetric& metric, const trials::Variant* serial,
                      Log& log) {
  const auto self = comm::make_self_communicator();
  apply::ApplyOptions options;
  options.model = run;
  options.split = data::name_of(metric.split);
  apply::TrainedModel model(*self, options, log);
  const auto metrics = session::evaluate_split(*model.parts, **model.data, metric.split, model.config, {metric.name});
  MeasuredModel measured{.parameters = parameters_without_state(*model.parts),
                         .predictions = predictions_of(model),
                         .outputs = model.parts->model->output_size(),
                         .classes = apply::class_reading(model),
                         .value = value_of(metrics, metric.name),
                         .loss = value_of(metrics, "loss"),
                         .train = (*model.data)->info().train};
  if (serial != nullptr && model.parts->model->convex() != nullptr) {
    const auto train = session::evaluate_split(*model.parts, **model.data, data::Split::train, model.config);
    measured.objective = value_of(train, "loss") + penalty_of(model, serial->config.optimizer);
  }
  return measured;
}

void compare_parameters(View own, View other, trials::ModelDistance& distance) {
  double squares = 0, norm = 0;
  distance.largest = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double value = other[i], difference = own[i] - value;
    distance.different += std::bit_cast<std::uint32_t>(own[i]) == std::bit_cast<std::uint32_t>(other[i]) ? 0 : 1;
    squares += difference * difference;
    norm += value * value;
    distance.largest = std::max(distance.largest, std::abs(difference));
  }
  distance.relative = squares == 0 ? 0 : std::sqrt(squares / norm);
}

void compare_predictions(const MeasuredModel& model, const MeasuredModel& other, trials::ModelDistance& distance) {
  const View own = model.predictions, theirs = other.predictions;
  if (own.empty() || own.size() != theirs.size()) return;
  double squares = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double difference = static_cast<double>(own[i]) - theirs[i];
    squares += difference * difference;
  }
  distance.predictions = std::sqrt(squares / static_cast<double>(own.size()));
  if (!model.classes) return;
  const auto outputs = static_cast<std::size_t>(model.outputs);
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < own.size(); i += outputs) {
    const bool same =
        model.classes->class_of(own.subspan(i, outputs)) == model.classes->class_of(theirs.subspan(i, outputs));
    changed += same ? 0 : 1;
  }
  distance.classes = static_cast<double>(changed) / static_cast<double>(own.size() / outputs);
}

/// Unknown for models of different shapes.
trials::ModelDistance distance_between(const MeasuredModel& model, const MeasuredModel& other) {
  trials::ModelDistance distance;
  if (model.parameters.size() != other.parameters.size() || model.outputs != other.outputs) return distance;
  distance.known = true;
  compare_parameters(model.parameters, other.parameters, distance);
  compare_predictions(model, other, distance);
  return distance;
}

/// \param examples_per_step of training
MeasuredCourse course_of(const std::string& run, const trials::StudyMetric& metric, double examples_per_step) {
  MeasuredCourse course;
  Seconds& sum = course.seconds;
  records::MetricsReader reader(run);
  while (const auto line = reader.next()) {
    const nlohmann::ordered_json json = line->fields();
    if (json.value("event", "") == "train" && json.contains("seconds")) {
      sum += records::seconds_from(json["seconds"]);
    } else if (json.value("event", "") == "evaluation" && json.value("split", "") == data::name_of(metric.split) &&
               !json.contains("weights_of_step")) {
      const auto value = json.value(metric.name, nlohmann::json());
      const double step = json.value("step", 0.0);
      course.curve.push_back({.updates = step,
                              .examples = step * examples_per_step,
                              .seconds = sum.sum() - sum.evaluation - sum.checkpoint,
                              .value = value.is_number() ? value.get<double>() : trials::kUnknown});
    }
  }
  return course;
}

/// The minimum is a help, which not every linear model has.
void drop_impossible_optimum(trials::StudyPlan& plan, bool in_older_job) {
  if (!plan.optimum) return;
  try {
    session::check(plan.optimum->config, {.in_older_job = in_older_job});
  } catch (const ConfigError& error) {
    plan.no_optimum = error.what();
    plan.optimum.reset();
  }
}

trials::StudyPlan plan_of(const ConfigText& text, const models::ModelKinds& models, const TrialOptions& options,
                          int ranks) {
  trials::StudyPlan plan;
  plan.variants = trials::variants_of(text, models, ranks);
  const settings::Config& serial = plan.variants.front().config;
  plan.name = serial.name;
  plan.folder = options.output.empty() ? "studies/" + serial.name : options.output;
  plan.settings = trials::study_of(text, models);
  plan.first_seed = serial.seed;
  if (plan.settings.optimum) plan.optimum = trials::optimum_of(plan.variants.front(), plan.no_optimum);
  plan.metric = metric_of(serial, plan.settings.metric);
  drop_impossible_optimum(plan, options.goes_on());
  return plan;
}

/// Finds before the first training what a later one would be refused for. Called on rank 0, which reads the set's
/// metadata alone.
/// \return the identity of each variant's set, by the variant's own
std::map<std::string, std::string> require_trainable(const trials::StudyPlan& plan, const std::string& path,
                                                     bool in_older_job) {
  std::map<std::string, std::string> sets;
  for (const trials::Variant& variant : plan.variants) {
    try {
      sets[variant.identity] = identity_text(data::inspect_dataset(variant.config.data).identity);
      session::check(variant.config, {.ranks = variant.trained_ranks(), .in_older_job = in_older_job});
      if (!variant.config.train.trains())
        throw ConfigError("train.epochs = 0: the runs of a study must train; set it to 1 or more");
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: the study's '{}': {}", path, variant.text(), error.what()));
    }
  }
  if (plan.optimum) sets[plan.optimum->identity] = sets.at(plan.variants.front().identity);
  return sets;
}

/// The metric is defined for the examples by which the study compares. Called on rank 0.
void require_defined_metric(const trials::StudyPlan& plan) {
  const settings::Config& serial = plan.variants.front().config;
  const auto set = data::open_dataset(serial.data, static_cast<std::uint64_t>(serial.seed));
  session::require_defined(serial, *set, plan.metric.split, plan.metric.name, "study.metric");
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
  /// \throws DataError where trainings were made on other data
  void require_same_data(const records::Journal& journal) const;
  void write_results() const;

  session::Job& job_;
  Log quiet_;          ///< the trainings have log files of their own
  session::Job runs_;  ///< the same ranks
  trials::StudyPlan plan_;
  trials::StudyProgress progress_;
  std::map<std::string, std::string> sets_;  ///< on rank 0: the identity of each variant's set, by the variant's own
  records::Existing existing_;
  TrainingMeasures measures_;
  std::map<int, comm::Communicator*> groups_;  ///< of the first so many ranks; elsewhere: of the others
};

Study::Study(session::Job& job, const ConfigText& text, const models::ModelKinds& models, const TrialOptions& options)
    : job_(job),
      quiet_(job.ranks().rank(), /*terminal=*/false),
      runs_(job, job.ranks(), quiet_),
      plan_(plan_of(text, models, options, job.ranks().size())),
      progress_(plan_),
      existing_(options.existing),
      measures_(plan_, progress_, quiet_) {
  if (job.ranks().is_root()) {
    sets_ = require_trainable(plan_, text.path, options.goes_on());
    if (!options.goes_on()) require_defined_metric(plan_);
  }
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
  if (journal.entries().empty()) {
    for (const trials::Variant& variant : plan_.variants) optim::require_base_rate(variant.config.schedule);
    journal.append({{"event", "study"}, {"version", 1}});
  } else if (journal.entries().front().value("event", "") != "study") {
    throw OutputError(
        fmt::format("{}: holds something else than a study; choose another folder (--output DIR)", plan_.folder));
  }
  require_same_data(journal);
  nlohmann::json trainings;
  for (const trials::StudyTraining& training : progress_.trainings()) {
    trainings.push_back({{"variant", training.variant->text()},
                         {"identity", training.variant->identity},
                         {"seed", training.seed},
                         {"data", sets_.at(training.variant->identity)},
                         {"folder", plan_.run_folder(training).substr(plan_.folder.size() + 1)}});
  }
  // For those who watch; a study that goes on may have other variants than before.
  journal.append({{"event", "plan"}, {"metric", plan_.metric.text()}, {"trainings", trainings}});
}

void Study::require_same_data(const records::Journal& journal) const {
  for (const nlohmann::json& entry : journal.entries()) {
    if (entry.value("event", "") != "plan") continue;
    for (const nlohmann::json& training : entry.at("trainings")) {
      const auto now = sets_.find(training.value("identity", ""));
      if (now == sets_.end()) continue;
      jobs::require_same_data(plan_.folder, training, plan_.variants.front().config.data.path, now->second);
    }
  }
}

void Study::resume(const records::Journal& journal) {
  for (const nlohmann::json& entry : journal.entries()) {
    if (entry.value("event", "") == "training") progress_.add(trials::study_record_from(entry.at("record")));
  }
  job_.log().info(fmt::format("{}: {} of the serial run and {}, compared by {}; in {}", on_one_line(plan_.name),
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
  const session::RunOptions options{.existing = task.goes_on ? records::Existing::resume : records::Existing::overwrite,
                                    .watching = session::Watching::none,
                                    .in_older_job = existing_ == records::Existing::resume};
  const auto settled = config.simulation.is_on() ? session::settle_simulation(runs_, config) : std::nullopt;
  const session::RunResult run = settled ? session::simulate(runs_, *settled, options, usable_cpus())
                                         : session::run(runs_, *groups_.at(training.variant->ranks), config, options);
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
                                  : fmt::format("{}: {} {} after {:.3g} s of training", what, plan_.metric.text(),
                                                records::metric_text(record.value, 4), record.training_seconds()));
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
