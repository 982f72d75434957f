#include "validation/exact_folds.hpp"

#include <algorithm>
#include <cmath>

#include "unisono/base/errors.hpp"

namespace unisono::jobs {
namespace {

/// Whether all folds are trained on every example that they do not validate: then the shortcut holds.
bool train_on_all_others(const Folds& folds) {
  for (std::int64_t fold = 0; fold < folds.size(); ++fold) {
    if (folds.training_size(fold) + std::ssize(folds.validation(fold)) != folds.rows()) return false;
  }
  return true;
}

/// The largest number of examples that one fold leaves out: of few, taking them out is faster than fitting the others.
std::int64_t most_left_out(const Folds& folds) {
  std::int64_t most = 0;
  for (std::int64_t fold = 0; fold < folds.size(); ++fold) most = std::max(most, std::ssize(folds.validation(fold)));
  return most;
}

records::TrialResult result_of(std::span<const double> errors) {
  double squares = 0, absolute = 0;
  for (const double error : errors) {
    squares += error * error;
    absolute += std::abs(error);
  }
  const auto count = static_cast<double>(errors.size());
  records::TrialResult result{.value = squares / count / 2};
  result.metrics = {{data::Split::validation, "loss", squares / count / 2, false},
                    {data::Split::validation, "rmse", std::sqrt(squares / count), false},
                    {data::Split::validation, "mae", absolute / count, false}};
  return result;
}

}  // namespace

std::optional<Ridge> ridge_of(const settings::Config& config, const data::Dataset& set, std::string& why) {
  const data::DatasetInfo& info = set.info();
  const models::LinearSettings& linear = config.model.linear;
  const bool squared = linear.loss == models::LinearLoss::squared ||
                       (linear.loss == models::LinearLoss::automatic && info.target_size == 1 && info.classes == 0);
  const data::Recipe& recipe = set.preprocessing().recipe;
  const bool fits_columns = recipe.missing != data::Missing::error ||
                            std::ranges::any_of(recipe.columns, [](const data::RecipeColumn& column) {
                              return column.kind == data::ColumnKind::category;
                            });
  const data::NormalizationKind scaling = info.normalization;
  const bool standard = scaling == data::NormalizationKind::feature ||
                        (scaling == data::NormalizationKind::automatic && recipe.scaling == data::Scaling::standard);
  const auto reasons = std::to_array<std::pair<bool, std::string_view>>(
      {{config.model.kind != "linear" || !squared, "the model is not linear with squared loss"},
       {linear.l1 > 0, "model.l1 is not 0"},
       {info.kind != data::SetKind::table || info.target_size != 1, "the set is not a table with one target"},
       {info.weighted, "the examples have weights"},
       {fits_columns, "columns of the set are imputed, or are categories"},
       {scaling != data::NormalizationKind::none && !standard, "features are not normalised one by one"}});
  for (const auto& [holds, reason] : reasons) {
    if (!holds) continue;
    why = reason;
    return std::nullopt;
  }
  return Ridge{
      .l2 = linear.l2 + config.optimizer.weight_decay, .bias = linear.bias, .standardised = standard && linear.bias};
}

ExactFolds solve_folds(const Ridge& ridge, data::Dataset& set, const Folds& folds, bool by_fits) {
  std::vector<double> x, y;
  const auto pass = set.training_part(0, 1, 4096, {});
  while (const auto batch = pass->next()) {
    x.insert(x.end(), batch->features.begin(), batch->features.end());
    y.insert(y.end(), batch->targets.begin(), batch->targets.end());
  }
  const LeastSquares problem(x, y, ridge);
  constexpr std::int64_t kFew = 64;
  const bool shortcut = !by_fits && train_on_all_others(folds) && most_left_out(folds) <= kFew;
  ExactFolds exact{.results = {},
                   .predictions = shortcut ? problem.predict_by_shortcut(folds) : problem.predict_by_fits(folds)};
  std::size_t at = 0;
  std::vector<double> errors;
  for (std::int64_t fold = 0; fold < folds.size(); ++fold) {
    errors.clear();
    for (const std::int64_t row : folds.validation(fold)) {
      errors.push_back(exact.predictions[at++] - y[static_cast<std::size_t>(row)]);
    }
    exact.results.push_back(result_of(errors));
  }
  return exact;
}

}  // namespace unisono::jobs
