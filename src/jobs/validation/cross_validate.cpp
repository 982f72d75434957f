#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trials/config_trials.hpp"
#include "unisono/apply/answers.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/jobs/jobs.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/search/search.hpp"
#include "unisono/search/space.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/run_plan.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/settings/job_settings.hpp"
#include "unisono/trials/trial_plan.hpp"
#include "validation/fold_results.hpp"
#include "validation/least_squares.hpp"
#include "validation/splitters.hpp"

namespace unisono::jobs {
namespace {

/// Refuses what the training of no fold may have.
void require_fold_training(const settings::Config& config) {
  if (config.train.early_stopping.is_on()) {
    throw ConfigError(
        "train.early_stopping: a fold that decides when training stops cannot measure the result any more; "
        "remove it, and train for a fixed number of epochs");
  }
  if (!config.train.threshold_by.empty()) {
    throw ConfigError(
        "train.threshold_by: the examples of a fold that choose the threshold cannot measure the result any more; "
        "remove it");
  }
  if (config.stages() > 1 || config.divides_layers()) {
    throw ConfigError(
        "replica: the predictions of a fold need a model that each rank holds as a whole; remove replica.stages, "
        "replica.tensor and replica.tensor_leaves");
  }
  const double fraction = config.data.validation_fraction;
  if (fraction == 0) return;
  throw ConfigError(
      fmt::format("data.validation_fraction = {}: a cross-validation divides all training examples itself; "
                  "remove it",
                  fraction));
}

/// A search within each outer fold: its trials are compared on folds of the outer fold's training examples alone, and
/// the best one is trained on all of these and measured on the outer fold, which had no part in the choice.
class NestedSearch {
 public:
  /// \param text of `planned` \param data the set. All but `planned` must outlive it. \throws ConfigError, DataError
  NestedSearch(const settings::PlannedConfig& planned, const Folds& outer, const ConfigText& text,
               const models::ModelKinds& models, const data::DatasetInfo& data);

  trials::NestedPlan& plan() { return plan_; }
  const trials::NestedPlan& plan() const { return plan_; }
  data::Fold fold_of(const records::TrialRun& training) const;
  std::vector<std::string> overrides(const records::TrialRun& training) const;
  /// What the search in an outer fold has chosen: "optimizer.learning_rate = 0.1"; empty: it is not known yet.
  std::string choice(std::int64_t outer) const;

 private:
  const Folds& outer_;
  std::int64_t seed_;
  std::vector<Folds> inner_;  ///< of the training examples of each outer fold, by their places among these
  search::Space space_;
  trials::NestedPlan plan_;
};

template <typename T>
std::vector<T> at_rows(const std::vector<T>& all, const std::vector<std::int64_t>& rows) {
  std::vector<T> some;
  if (all.empty()) return some;
  for (const std::int64_t row : rows) some.push_back(all[static_cast<std::size_t>(row)]);
  return some;
}

/// How the training examples of an outer fold are divided: by groups or in time where the outer folds are; else k-fold.
settings::CrossValidationSettings inner_settings(const settings::CrossValidationSettings& outer) {
  settings::CrossValidationSettings inner = outer;
  inner.folds = outer.inner_folds;
  inner.shuffle = true;
  if (outer.method != settings::FoldMethod::group_k_fold && outer.method != settings::FoldMethod::time_series) {
    inner.method = settings::FoldMethod::k_fold;
  }
  return inner;
}

/// A message about `folds` as one about `inner_folds`, the key that says how many there are.
std::string of_inner_folds(std::string message) {
  for (const std::string_view key : {" folds = ", " folds: "}) {
    if (const auto at = message.find(key); at != std::string::npos) message.insert(at + 1, "inner_");
  }
  return message;
}

std::vector<Folds> inner_folds(const settings::CrossValidationSettings& settings, const data::DataSettings& set,
                               const Folds& outer) {
  const settings::CrossValidationSettings inner = inner_settings(settings);
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> column;
  if (inner.stratified) labels = data::read_training_labels(set);
  if (const std::string name = column_of(inner); !name.empty()) column = data::read_training_column(set, name);
  std::vector<Folds> all;
  for (std::int64_t fold = 0; fold < outer.size(); ++fold) {
    const std::vector<std::int64_t> rows = outer.fold(fold).train;
    const auto own_labels = at_rows(labels, rows);
    const auto own_column = at_rows(column, rows);
    try {
      all.push_back(make_folds(inner, {.rows = std::ssize(rows), .labels = own_labels, .column = own_column}));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("within outer fold {}, {}", fold, of_inner_folds(error.what())));
    }
  }
  return all;
}

std::vector<std::unique_ptr<trials::TrialPlan>> plans_of(const settings::PlannedConfig& planned,
                                                         const search::Space& space, const std::vector<Folds>& inner,
                                                         const search::TrialWork& work) {
  const search::SearchSettings& search = *planned.plans.search;
  std::vector<std::unique_ptr<trials::TrialPlan>> plans;
  for (const Folds& folds : inner) {
    auto method = search::make_search_method(search, space, static_cast<std::uint64_t>(planned.config.seed),
                                             planned.config.train.epochs, work);
    const trials::PlanShape shape{.repeats = search.repeats, .folds = folds.size(), .refit = true};
    plans.push_back(std::make_unique<trials::TrialPlan>(std::move(method), shape));
  }
  return plans;
}

const search::SearchSettings& search_of(const settings::PlannedConfig& planned) {
  if (!planned.plans.search) {
    throw ConfigError("cross_validation.nested = true: the config has no section [search]; say there what varies");
  }
  if (search::trains_in_steps(planned.plans.search->method)) {
    throw ConfigError("search.method: a nested search takes grid, random, sobol or tpe");
  }
  return *planned.plans.search;
}

search::Space searched_space(const settings::PlannedConfig& planned, const ConfigText& text,
                             const models::ModelKinds& models) {
  const search::SearchSettings& settings = search_of(planned);
  search::Space space(settings.space);
  require_space(space, text, settings, models, require_fold_training);
  return space;
}

NestedSearch::NestedSearch(const settings::PlannedConfig& planned, const Folds& outer, const ConfigText& text,
                           const models::ModelKinds& models, const data::DatasetInfo& data)
    : outer_(outer),
      seed_(planned.config.seed),
      inner_(inner_folds(*planned.plans.cross_validation, planned.config.data, outer)),
      space_(searched_space(planned, text, models)),
      plan_(plans_of(planned, space_, inner_, work_of_trials(*planned.plans.search, space_, text, models, data))) {}

data::Fold NestedSearch::fold_of(const records::TrialRun& training) const {
  data::Fold fold = outer_.fold(training.outer);
  if (training.refit) return fold;
  const data::Fold places = inner_[static_cast<std::size_t>(training.outer)].fold(training.fold);
  return {.train = at_rows(fold.train, places.train), .validation = at_rows(fold.train, places.validation)};
}

std::vector<std::string> NestedSearch::overrides(const records::TrialRun& training) const {
  return trial_overrides(space_, plan_.of(training.outer), seed_, training);
}

std::string NestedSearch::choice(std::int64_t outer) const {
  const trials::TrialPlan& plan = plan_.of(outer);
  return plan.refitted() ? trials::trial_text(space_, plan, *plan.best()) : "";
}

/// The config itself is the only trial.
class OneTrial final : public search::SearchMethod {
 public:
  std::optional<search::SearchStep> next() const override {
    return begun_ ? std::nullopt : std::optional(search::SearchStep{});
  }
  void started(const search::SearchStep&) override { begun_ = true; }
  void ended(const search::SearchStep&, double) override { ended_ = true; }
  bool is_complete() const override { return ended_; }
  search::Point point(std::int64_t) const override { return {}; }
  std::int64_t trials() const override { return 1; }

 private:
  bool begun_ = false, ended_ = false;
};

settings::PlannedConfig parse(const ConfigText& text, const models::ModelKinds& models) {
  settings::PlannedConfig planned = settings::parse_plans(text, models);
  if (!planned.plans.cross_validation) planned.plans.cross_validation.emplace();
  require_fold_training(planned.config);
  return planned;
}

/// "accuracy", or "auto"
std::string metric_of(const search::SearchSettings& search) { return MetricThatCounts(search.metric).name(); }

/// A cross-validation from its config to its tables.
class CrossValidation final : public ConfigTrials {
 public:
  /// Collective over the job. \param planned what `config` says
  CrossValidation(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                  const TrialOptions& options, const settings::PlannedConfig& planned);
  session::RunStatus run();

  trials::Plan& plan() override { return nested_ ? static_cast<trials::Plan&>(nested_->plan()) : plan_; }
  void ended(const records::TrialRun& training, const records::TrialResult& result) override;

 private:
  const settings::CrossValidationSettings& settings() const { return *planned_.plans.cross_validation; }
  std::int64_t folds() const override { return folds_.size(); }
  bool keeps_runs() const override { return settings().keep != search::KeptTrials::none; }
  std::vector<std::string_view> free_keys() const override {
    return {"cross_validation.refit", "cross_validation.threads_per_fold"};
  }
  TrialTerms terms() const override;
  std::vector<std::string> overrides(const records::TrialRun& training) const override;
  std::string folder_of(const records::TrialRun& training) const override;
  std::string outputs_of(const records::TrialRun& training) const override;
  void say_begin() const override;
  bool solves_exactly() const;
  session::RunStatus solve();
  FoldResults results() const;
  std::optional<data::Fold> fold_of(const records::TrialRun& training) const;
  std::optional<records::TrialResult> result_of(std::int64_t fold) const;
  std::optional<records::ClassReading> class_reading() const;
  void write_results(const FoldResults& results, const std::function<std::vector<float>(std::int64_t)>& outputs) const;

  Folds folds_;
  std::optional<NestedSearch> nested_;
  trials::TrialPlan plan_;  ///< where nothing is nested
};

CrossValidation::CrossValidation(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                                 const TrialOptions& options, const settings::PlannedConfig& planned)
    : ConfigTrials(job, "cross_validation", config, models, planned, options,
                   {.ranks = planned.plans.cross_validation->ranks_per_fold,
                    .threads = planned.plans.cross_validation->threads_per_fold,
                    .ranks_key = "cross_validation.ranks_per_fold",
                    .threads_key = "cross_validation.threads_per_fold"}),
      folds_(folds_of_set(settings(), planned_.config.data)),
      nested_(settings().nested
                  ? std::optional<NestedSearch>(std::in_place, planned_, folds_, text_, models, set_.info())
                  : std::nullopt),
      plan_(std::make_unique<OneTrial>(), {.folds = folds_.size(), .refit = settings().refit}) {
  if (nested_) MetricThatCounts(planned_.plans.search->metric).require(planned_.config, set_.set(), true, goes_on());
  set_.set().fold_view(folds_.fold(0));  // says what makes folds impossible
  if (job.ranks().is_root())
    session::check(
        planned_.config,
        {.ranks = static_cast<int>(settings().ranks_per_fold), .with_folds = true, .in_older_job = goes_on()});
}

/// Of the training that a fold measures; nothing: it has not ended.
std::optional<records::TrialResult> CrossValidation::result_of(std::int64_t fold) const {
  if (nested_) return nested_->plan().of(fold).refitted();
  const auto trial = plan_.trials().find(0);
  if (trial == plan_.trials().end()) return std::nullopt;
  const auto found = trial->second.results.find({0, fold});
  return found == trial->second.results.end() ? std::nullopt : std::optional(found->second);
}

FoldResults CrossValidation::results() const {
  FoldResults results{.folds = folds_,
                      .results = {},
                      .choices = {},
                      .overlap = overlap_of(settings(), folds_),
                      .class_names = set_.set().class_names()};
  for (std::int64_t fold = 0; fold < folds_.size(); ++fold) {
    results.results.push_back(
        result_of(fold).value_or(records::TrialResult{.status = records::TrialStatus::interrupted}));
    if (nested_) results.choices.push_back(nested_->choice(fold));
  }
  return results;
}

std::string CrossValidation::outputs_of(const records::TrialRun& training) const {
  if (training.refit != nested_.has_value()) return "";
  return fmt::format("{}/outputs/{:06}", folder_, nested_ ? training.outer : training.fold);
}

std::string CrossValidation::folder_of(const records::TrialRun& training) const {
  if (!nested_) return training.refit ? folder_ + "/final" : fmt::format("{}/folds/{:04}", folder_, training.fold);
  const std::string outer = fmt::format("{}/folds/{:04}", folder_, training.outer);
  if (training.refit) return outer + "/best";
  return fmt::format("{}/trials/{:04}/repeat-{}/fold-{}", outer, training.trial, training.repeat, training.fold);
}

std::optional<data::Fold> CrossValidation::fold_of(const records::TrialRun& training) const {
  if (nested_) return nested_->fold_of(training);
  return training.refit ? std::nullopt : std::optional(folds_.fold(training.fold));
}

std::vector<std::string> CrossValidation::overrides(const records::TrialRun& training) const {
  if (nested_) return nested_->overrides(training);
  if (!training.refit) return {};
  return {kRefitOverrides.begin(), kRefitOverrides.end()};
}

void CrossValidation::say_begin() const {
  job_.log().info(fmt::format("{}: {} of {} by {}, {} at a time", folder_, count_of(folds_.size(), "fold"),
                              count_of(folds_.rows(), "example"), name_of(settings().method, settings::kFoldMethods),
                              at_a_time()));
  if (const std::string note = note_on_groups(settings(), planned_.config.data); !note.empty()) {
    job_.log().warning(note);
  }
}

void CrossValidation::ended(const records::TrialRun& training, const records::TrialResult& result) {
  if (training.refit && !nested_) {
    if (result.status != records::TrialStatus::complete) return;  // write_results says why
    return job_.log().info(fmt::format("a model was trained on all examples: {}/final", folder_));
  }
  if (nested_ && !training.refit) return;  // one of many trials
  constexpr std::int64_t kMostLines = 200;
  if (folds_.size() > kMostLines && result.status == records::TrialStatus::complete) return;
  std::string text;
  const auto has = [&](const char* name) {
    return std::ranges::find(result.metrics, name, &records::MeasuredMetric::name) != result.metrics.end();
  };
  const bool several = has("f1") && !has("f1_macro");  // more than two classes: their areas are recorded alone
  for (const records::MeasuredMetric& metric : result.metrics) {
    if (metric.split != data::Split::validation || !models::is_usual(metric.name)) continue;
    if (several && metric.name == "auc") continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", metric.name, records::metric_text(metric.value, 6));
  }
  if (result.status != records::TrialStatus::complete) {
    text = fmt::format("{}: {}", name_of(result.status, records::kTrialStatuses), result.message);
  }
  const std::int64_t fold = nested_ ? training.outer : training.fold;
  const std::string choice = nested_ ? fmt::format(" ({})", nested_->choice(fold)) : "";
  job_.log().info(fmt::format("fold {} of {}: {}{}; {:.1f} s", fold, folds_.size(), text, choice, result.seconds));
}

TrialTerms CrossValidation::terms() const {
  return {.config = set_.text(),
          .models = models_,
          .fold_of = [this](const records::TrialRun& training) { return fold_of(training); },
          .metric = nested_ ? metric_of(*planned_.plans.search) : "auto",
          .threads = settings().threads_per_fold,
          .in_older_job = goes_on(),
          .must_be_defined = nested_.has_value(),
          .require = require_fold_training};
}

session::RunStatus CrossValidation::run() {
  if (solves_exactly()) return solve();
  const Stopwatch watch(job_.runtime());
  const bool is_complete = run_trials(job_, *this);
  if (!job_.ranks().is_root()) return is_complete ? session::RunStatus::complete : session::RunStatus::interrupted;
  if (is_complete) {
    FoldResults all = results();
    all.seconds = watch.seconds();
    write_results(all, [this](std::int64_t fold) {
      return read_floats(
          outputs_of(nested_ ? records::TrialRun{.outer = fold, .refit = true} : records::TrialRun{.fold = fold}));
    });
    return session::RunStatus::complete;
  }
  records::write_text_file(folder_ + "/folds.csv", results().csv());
  job_.log().info(fmt::format("{}: stopped; --resume goes on", folder_));
  return session::RunStatus::interrupted;
}

/// Whether the folds' models are solved, and not trained. \throws ConfigError where that is asked for, but impossible
bool CrossValidation::solves_exactly() const {
  const settings::FoldSolver solver = settings().solver;
  if (solver == settings::FoldSolver::train || nested_) return false;
  const bool leaves_few_out = settings().method == settings::FoldMethod::leave_one_out ||
                              settings().method == settings::FoldMethod::leave_p_out;
  std::string why;
  const bool is_possible = ridge_of(planned_.config, set_.set(), why).has_value();
  if (solver == settings::FoldSolver::automatic) return is_possible && leaves_few_out && !settings().refit;
  if (is_possible) return true;
  throw ConfigError(fmt::format("cross_validation.solver = \"{}\": {}; set it to \"train\"",
                                name_of(solver, settings::kFoldSolvers), why));
}

/// Rank 0 solves all folds: that takes it less time than handing them out.
session::RunStatus CrossValidation::solve() {
  if (!job_.ranks().is_root()) return session::RunStatus::complete;
  const auto journal = open_journal(*this);
  std::string why;
  const bool by_fits = settings().solver == settings::FoldSolver::exact_fits;
  const Stopwatch watch(job_.runtime());
  const ExactFolds exact = solve_folds(*ridge_of(planned_.config, set_.set(), why), set_.set(), folds_, by_fits);
  const double seconds = watch.seconds();
  job_.log().info("linear models with squared loss: solved exactly, not trained (cross_validation.solver)");
  std::vector<std::size_t> first{0};
  for (std::int64_t fold = 0; fold < folds_.size(); ++fold)
    first.push_back(first.back() + folds_.validation(fold).size());
  write_results({.folds = folds_,
                 .results = exact.results,
                 .choices = {},
                 .overlap = overlap_of(settings(), folds_),
                 .seconds = seconds,
                 .class_names = set_.set().class_names()},
                [&](std::int64_t fold) {
                  const auto begin =
                      exact.predictions.begin() + static_cast<std::ptrdiff_t>(first[static_cast<std::size_t>(fold)]);
                  return std::vector<float>(begin, begin + std::ssize(folds_.validation(fold)));
                });
  return session::RunStatus::complete;
}

std::optional<records::ClassReading> CrossValidation::class_reading() const {
  const settings::Config config = session::settle(planned_.config, set_.info()).config;
  session::ModelOfConfig model(config, set_.info());
  return apply::class_reading(model.model(), session::inputs_of(set_.info()),
                              config.data.targets != data::Targets::features && !set_.info().several_labels);
}

/// Called on rank 0 when all folds have ended.
void CrossValidation::write_results(const FoldResults& results,
                                    const std::function<std::vector<float>(std::int64_t)>& outputs) const {
  records::write_text_file(folder_ + "/folds.csv", results.csv());
  records::write_text_file(folder_ + "/cross_validation.json", results.json().dump(2) + "\n");
  write_predictions(folder_, folds_, {planned_.config.data, set_.set().class_names(), class_reading()}, outputs);
  job_.log().info(fmt::format("{}: {} of {}\n{}", folder_, count_of(folds_.size(), "fold"),
                              count_of(folds_.rows(), "example"), results.text()));
  if (const std::string text = results.short_of_convergence(); !text.empty()) {
    job_.log().warning(fmt::format("{}: {}; more of them may change these figures", folder_, text));
  }
  const auto failed = std::find_if(results.results.begin(), results.results.end(), [](const records::TrialResult& one) {
    return one.status != records::TrialStatus::complete;
  });
  const auto& refitted = plan_.refitted();
  if (failed == results.results.end() && refitted && refitted->status != records::TrialStatus::complete) {
    throw session::TrainingError(
        fmt::format("{}: no model was trained on all examples: {}", folder_, refitted->message));
  }
  if (failed == results.results.end()) return;
  throw session::TrainingError(fmt::format("{}: fold {} was not trained to its end: {}", folder_,
                                           failed - results.results.begin(), failed->message));
}

}  // namespace

session::RunStatus cross_validate(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                                  const TrialOptions& options) {
  return CrossValidation(job, config, models, options, parse(config, models)).run();
}

}  // namespace unisono::jobs
