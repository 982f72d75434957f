#include "validation/least_squares.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>

#include "unisono/base/errors.hpp"

namespace unisono::jobs {
namespace {

/// Σ a_i b_i, in lanes, which the compiler makes vectors of.
double dot(const double* a, const double* b, std::int64_t n) {
  constexpr std::int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<std::size_t>(lane)] += a[i + lane] * b[i + lane];
    }
  }
  double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// A = L Lᵀ in place of the lower triangle of A. \return whether A is positive definite, by far more than rounding
bool factorise(std::vector<double>& a, std::size_t d) {
  constexpr double kRounding = 1e-13;
  for (std::size_t j = 0; j < d; ++j) {
    double* const row = a.data() + j * d;
    const double before = row[j];
    for (std::size_t k = 0; k < j; ++k) {
      const double* const other = a.data() + k * d;
      double sum = row[k];
      for (std::size_t i = 0; i < k; ++i) sum -= row[i] * other[i];
      row[k] = sum / other[k];
    }
    double pivot = before;
    for (std::size_t i = 0; i < j; ++i) pivot -= row[i] * row[i];
    if (!(pivot > kRounding * before)) return false;
    row[j] = std::sqrt(pivot);
  }
  return true;
}

/// b = L⁻¹ b
void solve_lower(const std::vector<double>& l, std::size_t d, std::span<double> b) {
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= l[i * d + k] * b[k];
    b[i] /= l[i * d + i];
  }
}

/// b = L⁻ᵀ b
void solve_upper(const std::vector<double>& l, std::size_t d, std::span<double> b) {
  for (std::size_t i = d; i-- > 0;) {
    for (std::size_t k = i + 1; k < d; ++k) b[i] -= l[k * d + i] * b[k];
    b[i] /= l[i * d + i];
  }
}

void require_definite(bool definite) {
  if (definite) return;
  throw DataError(
      "the features of a fold's training examples depend linearly on each other, so that the weights are not "
      "determined; set model.l2 or optimizer.weight_decay above 0, leave columns out, or use solver = \"train\"");
}

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

double LinearFit::predict(std::span<const double> x) const {
  return std::inner_product(x.begin(), x.end(), weights.begin(), bias);
}

LeastSquares::LeastSquares(std::span<const double> x, std::span<const double> y, const Ridge& ridge)
    : ridge_(ridge),
      rows_(std::ssize(y)),
      features_(y.empty() ? 0 : x.size() / y.size()),
      width_(features_ + (ridge.bias ? 1 : 0)),
      columns_(width_ * y.size(), 1.0),
      shift_(features_),
      y_(y.begin(), y.end()) {
  assert(!ridge.standardised || (ridge.bias && ridge.bias_l2 == 0));
  const bool shifted = ridge.bias && ridge.bias_l2 == 0;  // the bias then makes up for any shift
  for (std::size_t j = 0; j < features_; ++j) {
    double* const column = columns_.data() + j * y.size();
    for (std::size_t i = 0; i < y.size(); ++i) column[i] = x[i * features_ + j];
    if (!shifted) continue;
    shift_[j] = std::accumulate(column, column + rows_, 0.0) / static_cast<double>(rows_);
    for (std::size_t i = 0; i < y.size(); ++i) column[i] -= shift_[j];
  }
}

void LeastSquares::add(std::int64_t first, std::int64_t last, Moments& moments) const {
  const auto n = static_cast<std::size_t>(rows_), at = static_cast<std::size_t>(first);
  for (std::size_t j = 0; j < width_; ++j) {
    const double* const column = columns_.data() + j * n + at;
    for (std::size_t k = 0; k <= j; ++k) {
      moments.products[j * width_ + k] += dot(column, columns_.data() + k * n + at, last - first);
    }
    moments.answers[j] += dot(column, y_.data() + at, last - first);
  }
  moments.rows += static_cast<double>(last - first);
}

LeastSquares::Moments LeastSquares::moments_of(std::span<const std::int64_t> rows) const {
  Moments moments{std::vector<double>(width_ * width_), std::vector<double>(width_)};
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first + 1;
    while (last < rows.size() && rows[last] == rows[last - 1] + 1) ++last;
    add(rows[first], rows[last - 1] + 1, moments);
    first = last;
  }
  return moments;
}

void LeastSquares::remove(std::int64_t row, Moments& moments) const {
  for (std::size_t j = 0; j < width_; ++j) {
    const double z = value(row, j);
    for (std::size_t k = 0; k <= j; ++k) moments.products[j * width_ + k] -= z * value(row, k);
    moments.answers[j] -= z * y_[static_cast<std::size_t>(row)];
  }
  moments.rows -= 1;
}

void LeastSquares::add_penalties(Moments& moments) const {
  const double n = moments.rows;
  std::vector<double>& products = moments.products;
  for (std::size_t j = 0; j < features_; ++j) {
    double squared_scale = 1;
    if (ridge_.standardised) {
      const double mean = products[features_ * width_ + j] / n;  // by the column of ones
      const double variance = products[j * width_ + j] / n - mean * mean;
      if (variance > 0) squared_scale = variance;
    }
    products[j * width_ + j] += n * ridge_.l2 * squared_scale;
  }
  if (ridge_.bias) products.back() += n * ridge_.bias_l2;
}

std::vector<double> LeastSquares::solve(Moments moments) const {
  add_penalties(moments);
  require_definite(factorise(moments.products, width_));
  solve_lower(moments.products, width_, moments.answers);
  solve_upper(moments.products, width_, moments.answers);
  return moments.answers;
}

double LeastSquares::predict(std::span<const double> solution, std::int64_t row) const {
  double sum = 0;
  for (std::size_t j = 0; j < width_; ++j) sum += solution[j] * value(row, j);
  return sum;
}

LinearFit LeastSquares::fit(std::span<const std::int64_t> rows) const {
  LinearFit fit{.weights = solve(moments_of(rows))};
  if (!ridge_.bias) return fit;
  fit.bias = fit.weights.back();
  fit.weights.pop_back();
  for (std::size_t j = 0; j < features_; ++j) fit.bias -= fit.weights[j] * shift_[j];
  return fit;
}

std::vector<double> LeastSquares::predict_by_fits(const Folds& folds) const {
  std::vector<double> predictions;
  for (std::int64_t i = 0; i < folds.size(); ++i) {
    const std::vector<double> solution = solve(moments_of(folds.fold(i).train));
    for (const std::int64_t row : folds.validation(i)) predictions.push_back(predict(solution, row));
  }
  return predictions;
}

std::vector<double> LeastSquares::predict_by_shortcut(const Folds& folds) const {
  return ridge_.standardised ? predict_by_removal(folds) : predict_by_hat(folds);
}

std::vector<double> LeastSquares::predict_by_removal(const Folds& folds) const {
  Moments all{std::vector<double>(width_ * width_), std::vector<double>(width_)};
  add(0, rows_, all);
  std::vector<double> predictions;
  for (std::int64_t i = 0; i < folds.size(); ++i) {
    Moments moments = all;
    for (const std::int64_t row : folds.validation(i)) remove(row, moments);
    const std::vector<double> solution = solve(std::move(moments));
    for (const std::int64_t row : folds.validation(i)) predictions.push_back(predict(solution, row));
  }
  return predictions;
}

LeastSquares::Hat LeastSquares::hat_of(std::int64_t size) const {
  Moments moments{std::vector<double>(width_ * width_), std::vector<double>(width_)};
  add(0, rows_, moments);
  moments.rows = static_cast<double>(size);
  add_penalties(moments);
  require_definite(factorise(moments.products, width_));
  solve_lower(moments.products, width_, moments.answers);
  Hat hat;
  std::vector<double> z(width_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::size_t j = 0; j < width_; ++j) z[j] = value(row, j);
    solve_lower(moments.products, width_, z);
    hat.residuals.push_back(y_[static_cast<std::size_t>(row)] - dot(z.data(), moments.answers.data(), std::ssize(z)));
    hat.factors.insert(hat.factors.end(), z.begin(), z.end());
  }
  return hat;
}

std::vector<double> LeastSquares::errors_without(const std::vector<std::int64_t>& out, const Hat& hat) const {
  std::vector<double> left(out.size() * out.size()), errors;  // left: the lower triangle of I − H of these rows
  const auto factor = [&](std::int64_t row) { return hat.factors.data() + static_cast<std::size_t>(row) * width_; };
  for (std::size_t a = 0; a < out.size(); ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      left[a * out.size() + b] =
          (a == b ? 1 : 0) - dot(factor(out[a]), factor(out[b]), static_cast<std::int64_t>(width_));
    }
    errors.push_back(hat.residuals[static_cast<std::size_t>(out[a])]);
  }
  require_definite(factorise(left, out.size()));
  solve_lower(left, out.size(), errors);
  solve_upper(left, out.size(), errors);
  return errors;
}

std::vector<double> LeastSquares::predict_by_hat(const Folds& folds) const {
  std::map<std::int64_t, Hat> hats;  // by the number of training examples of a fold, whose multiples the penalties are
  std::vector<double> predictions;
  for (std::int64_t i = 0; i < folds.size(); ++i) {
    const std::int64_t size = folds.training_size(i);
    const auto known = hats.find(size);
    const Hat& hat = known != hats.end() ? known->second : hats.emplace(size, hat_of(size)).first->second;
    const std::vector<double> errors = errors_without(folds.validation(i), hat);
    for (std::size_t a = 0; a < errors.size(); ++a) {
      const std::int64_t row = folds.validation(i)[a];
      predictions.push_back(y_[static_cast<std::size_t>(row)] - errors[a]);
    }
  }
  return predictions;
}

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
