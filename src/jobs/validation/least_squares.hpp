#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/records/journal.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/settings/job_settings.hpp"
#include "validation/splitters.hpp"

// Linear models with squared loss, solved exactly: what training on the whole set minimises (models::Objective),
//     f(w, b) = (1/n) Σ_i ½ (x_i·w + b − y_i)² + l2/2 Σ_j (s_j w_j)² + bias_l2/2 b²,
// over the n training examples of a fold. s_j is 1 or, where features are standardised, the deviation of feature j over
// these examples, since the weight of a standardised feature is s_j w_j. (scikit-learn's Ridge has alpha = n · l2.)
// By the normal equations and Cholesky's method, in double.
namespace unisono::jobs {

/// What is fitted, and how.
struct Ridge {
  double l2 = 0;  ///< the model's l2 plus optimizer.weight_decay
  bool bias = true;
  double bias_l2 = 0;
  /// Features are scaled by their deviations over the fold's training examples. With an unpenalised bias alone, which
  /// makes up for the means that are subtracted, too.
  bool standardised = false;
};

/// y ≈ x·w + b
struct LinearFit {
  std::vector<double> weights;  ///< of features as they were given
  double bias = 0;
  double predict(std::span<const double> x) const;
};

/// Examples in memory, of which folds are fitted.
class LeastSquares {
 public:
  /// \param x [n, features], row-major \param y [n] \pre n ≥ 1
  LeastSquares(std::span<const double> x, std::span<const double> y, const Ridge& ridge);

  std::int64_t rows() const { return rows_; }
  /// The fit on some rows. n·d² + d³/6 multiplications for d features.
  /// \param rows ascending \throws DataError if features of these rows depend linearly on each other, and l2 is 0
  LinearFit fit(std::span<const std::int64_t> rows) const;

  /// Out-of-fold predictions, fold after fold, in the order of their validation examples: of a fit for each fold, …
  std::vector<double> predict_by_fits(const Folds& folds) const;
  /// … and the same without. For a fold that leaves p examples out, where H = X A⁻¹ Xᵀ of all examples (A = XᵀX +
  /// penalties of a fold's size), the errors of the p are (I − H_pp)⁻¹ (y − H y)_p: n·d² once, and p²·d + p³ a fold.
  /// Cook & Weisberg, "Residuals and Influence in Regression", 1982. Of standardised features the penalties differ from
  /// fold to fold; then the p rows are taken out of XᵀX: p·d² + d³/6 a fold.
  /// \pre each fold is trained on all examples that it does not validate
  std::vector<double> predict_by_shortcut(const Folds& folds) const;

 private:
  /// Zᵀ Z (lower triangle) and Zᵀ y of some rows; Z = [x − shift, 1].
  struct Moments {
    std::vector<double> products;  ///< [d, d]
    std::vector<double> answers;   ///< [d]
    double rows = 0;
  };
  Moments moments_of(std::span<const std::int64_t> rows) const;
  void add(std::int64_t first, std::int64_t last, Moments& moments) const;
  void remove(std::int64_t row, Moments& moments) const;
  void add_penalties(Moments& moments) const;
  std::vector<double> solve(Moments moments) const;
  double value(std::int64_t row, std::size_t column) const {
    return columns_[column * static_cast<std::size_t>(rows_) + static_cast<std::size_t>(row)];
  }
  double predict(std::span<const double> solution, std::int64_t row) const;
  std::vector<double> predict_by_removal(const Folds& folds) const;
  std::vector<double> predict_by_hat(const Folds& folds) const;
  /// H = F Fᵀ and y − H y of all rows, with the penalties of a fold of so many training rows.
  struct Hat {
    std::vector<double> factors;  ///< F, [n, width]
    std::vector<double> residuals;
  };
  Hat hat_of(std::int64_t size) const;
  /// The errors of rows that are left out.
  std::vector<double> errors_without(const std::vector<std::int64_t>& out, const Hat& hat) const;

  Ridge ridge_;
  std::int64_t rows_;
  std::size_t features_, width_;  ///< width_: features, and 1 for the bias
  std::vector<double> columns_;   ///< [width, n]: Zᵀ
  std::vector<double> shift_;     ///< [features] means of all rows; 0 where the bias is penalised, or there is none
  std::vector<double> y_;
};

/// The least squares that a config's model minimises; nothing where it is not one that can be solved exactly.
/// \param why on return why not
std::optional<Ridge> ridge_of(const settings::Config& config, const data::Dataset& set, std::string& why);

/// What the exact models of all folds are worth.
struct ExactFolds {
  std::vector<records::TrialResult> results;  ///< by fold: loss, rmse, mae
  std::vector<double> predictions;            ///< fold after fold
};

/// \param by_fits a fit for each fold; otherwise by the shortcut where there is one \throws DataError
ExactFolds solve_folds(const Ridge& ridge, data::Dataset& set, const Folds& folds, bool by_fits);

}  // namespace unisono::jobs
