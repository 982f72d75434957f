#include "validation/nested.hpp"

#include <utility>

#include "trials/trial_work.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/search/method.hpp"
#include "unisono/trials/trial_overrides.hpp"
#include "validation/splitters.hpp"

namespace unisono::jobs {
namespace {

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

std::vector<Folds> inner_folds(const settings::CrossValidationSettings& settings, const std::string& path,
                               const Folds& outer) {
  const settings::CrossValidationSettings inner = inner_settings(settings);
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> column;
  if (inner.stratified) labels = data::read_training_labels(path);
  if (const std::string name = column_of(inner); !name.empty()) column = data::read_training_column(path, name);
  std::vector<Folds> all;
  for (std::int64_t fold = 0; fold < outer.size(); ++fold) {
    const std::vector<std::int64_t> rows = outer.fold(fold).train;
    const auto own_labels = at_rows(labels, rows);
    const auto own_column = at_rows(column, rows);
    all.push_back(make_folds(inner, {.rows = std::ssize(rows), .labels = own_labels, .column = own_column}));
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

}  // namespace

NestedSearch::NestedSearch(const settings::PlannedConfig& planned, const Folds& outer, const ConfigText& text,
                           const models::ModelKinds& models, const data::DatasetInfo& data)
    : outer_(outer),
      seed_(planned.config.seed),
      inner_(inner_folds(*planned.plans.cross_validation, planned.config.data.path, outer)),
      space_(search_of(planned).space),
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

}  // namespace unisono::jobs
