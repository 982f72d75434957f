// Alternating least squares of a factorization: the normal equations of a user; those of an item are alike.
//   explicit   J = Σ ½ (r_ui − r̂_ui)² + Σ_u ½ λ_u (‖p_u‖² + b_u²) + Σ_i ½ λ_i (‖q_i‖² + c_i²)
//              (Σ_i z zᵀ + λ_u I) [p_u; b_u] = Σ_i (r_ui − mean − c_i) z      over the user's ratings, z = [q_i; 1]
//              λ_u = user_l2 · n_u with l2_per = "rating" (weighted-λ regularisation), else user_l2.
//              Zhou, Wilkinson, Schreiber & Pan, "Large-scale parallel collaborative filtering for the Netflix prize",
//              AAIM 2008; with biases, solved for together with the factors.
//   implicit   J = Σ over all pairs ½ w_ui (x_ui − p_u · q_i)² + penalties; w_ui = 1 + α |r_ui|, x_ui = 1 where r_ui >
//   0,
//              else 0; pairs that are not in the set have w = 1, x = 0
//              (Σ_all q qᵀ + Σ_i α |r_ui| q_i q_iᵀ + λ_u I) p_u = Σ_i w_ui x_ui q_i      sums over the user's values
//              Hu, Koren & Volinsky, "Collaborative filtering for implicit feedback datasets", ICDM 2008.
#include <cmath>

#include "factorization/factorization_model.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::models {
namespace {

class Solver final : public Scratch {
 public:
  explicit Solver(Index width) : matrices(kernels::LeastSquaresKernels::scratch_floats(width)) {}
  void resize(std::size_t ratings) {
    if (targets.size() >= ratings) return;
    targets.resize(ratings);
    weights.resize(ratings);
  }

  Buffer matrices;
  std::vector<float> targets, weights;  ///< a number for each rating of a row
};

}  // namespace

void FactorizationModel::require_least_squares() const {
  if (settings_.user_l2 > 0 && settings_.item_l2 > 0) return;
  throw ConfigError(
      "model.user_l2, model.item_l2: optimizer.kind = \"als\" needs both above 0: the equations of a user with few "
      "ratings have no unique solution without; 0.05 for each rating fits many sets");
}

double FactorizationModel::weight_of(float value) const {
  return implicit() ? 1 + settings_.confidence * static_cast<double>(std::abs(value)) : 1;
}

double FactorizationModel::l2_of(std::size_t space, Index n) const {
  const double l2 = space == 0 ? settings_.user_l2 : settings_.item_l2;
  return settings_.l2_per == PenaltyPer::rating ? l2 * static_cast<double>(n) : l2;
}

kernels::RowMatrix FactorizationModel::table(std::size_t space, View parameters) const {
  // Kernels take one kind of matrix, whether they change it or not.
  auto* const first = const_cast<float*>(parameters.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return rows_at(first + (space == 0 ? users_ : items_)).factors;
}

Index FactorizationModel::gram_floats() const {
  return implicit() ? kernels::LeastSquaresKernels::gram_floats(width_) : 0;
}

void FactorizationModel::add_gram(std::size_t space, Index first, Index last, View parameters, MutableView gram) const {
  least_squares_->add_gram(table(space, parameters), settings_.dimension, first, last, gram);
}

/// ½ Σ over all pairs (p_u · q_i)², from Σ p pᵀ and Σ q qᵀ.
double FactorizationModel::shared_loss(View row_gram, View column_gram) const {
  double sum = 0;
  for (Index column = 0; !row_gram.empty() && column < settings_.dimension; ++column) {
    for (Index row = column; row < settings_.dimension; ++row) {
      const auto at = static_cast<std::size_t>(column * stride_ + row);
      const double product = static_cast<double>(row_gram[at]) * static_cast<double>(column_gram[at]);
      sum += row == column ? product : 2 * product;
    }
  }
  return sum / 2;
}

std::unique_ptr<Scratch> FactorizationModel::make_solver() const { return std::make_unique<Solver>(width_); }

void FactorizationModel::solve(const RatedRow& row, View gram, MutableView parameters, Scratch& scratch) const {
  const kernels::RowMatrix own = table(row.space, parameters), others = table(1 - row.space, parameters);
  float* const solution = own.row(row.number);
  if (row.ratings() == 0) {
    std::fill_n(solution, width_ + 1, 0.0F);
    return;
  }
  auto& solver = static_cast<Solver&>(scratch);
  const std::size_t n = row.others.size();
  solver.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float value = row.values[i];
    const float* const bias = others.row(static_cast<Index>(row.others[i])) + width_;
    solver.targets[i] = implicit() ? static_cast<float>(weight_of(value)) * target_of(value) : value - mean_ - *bias;
    solver.weights[i] = static_cast<float>(weight_of(value) - 1);
  }
  const kernels::LeastSquaresTerms terms{.rows = row.others,
                                         .targets = View(solver.targets).first(n),
                                         .weights = View(solver.weights).first(implicit() ? n : 0),
                                         .gram = gram,
                                         .l2 = static_cast<float>(l2_of(row.space, row.ratings())),
                                         .bias = settings_.biases};
  least_squares_->solve(others, settings_.dimension, terms, solver.matrices.view(),
                        {{solution, static_cast<std::size_t>(width_)}, settings_.biases ? solution + width_ : nullptr});
}

double FactorizationModel::solving_flops(Index n) const {
  const auto k = static_cast<double>(settings_.dimension), ratings = static_cast<double>(n);
  return ratings == 0 ? 0 : ratings * k * (k + 5) + k * k * k / 3 + 4 * k * k;
}

/// Of an iteration, for each rating: both its rows' sums and the product of its loss, and its share of the systems.
double FactorizationModel::least_squares_flops() const {
  const auto k = static_cast<double>(settings_.dimension);
  const double of_rating = 2 * (solving_flops(2) - solving_flops(1)) + 2 * k;
  const double of_row = solving_flops(1) - (solving_flops(2) - solving_flops(1));
  const auto rows = static_cast<double>(user_count_ + item_count_);
  return of_rating + (examples_ > 0 ? of_row * rows / static_cast<double>(examples_) : 0);
}

double FactorizationModel::row_penalty(const RatedRow& row, View parameters) const {
  const float* const values = table(row.space, parameters).row(row.number);
  double squares = 0;
  for (Index k = 0; k < settings_.dimension; ++k)
    squares += static_cast<double>(values[k]) * static_cast<double>(values[k]);
  if (settings_.biases) squares += static_cast<double>(values[width_]) * static_cast<double>(values[width_]);
  return l2_of(row.space, row.ratings()) * squares / 2;
}

double FactorizationModel::add_losses(const RatedRow& row, View parameters, Scratch& scratch,
                                      kernels::LossSums& sums) const {
  const kernels::RowMatrix own = table(row.space, parameters), others = table(1 - row.space, parameters);
  const float* const values = own.row(row.number);
  auto& solver = static_cast<Solver&>(scratch);
  const std::size_t n = row.others.size();
  solver.resize(n);
  const MutableView products = MutableView(solver.targets).first(n);
  least_squares_->products(others, row.others, {values, static_cast<std::size_t>(width_)}, products);
  double loss = 0, squared = 0, absolute = 0, unweighted = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float biases = values[width_] + others.row(static_cast<Index>(row.others[i]))[width_];
    const auto rating = static_cast<double>(mean_ + biases + products[i]);
    const double error = rating - static_cast<double>(target_of(row.values[i]));
    loss += weight_of(row.values[i]) * error * error;
    squared += error * error;
    absolute += std::abs(error);
    unweighted += rating * rating;  // is in shared_loss
  }
  sums.loss += loss / 2;
  sums.squared_error += squared;
  sums.absolute_error += absolute;
  sums.examples += row.ratings();
  sums.values += row.ratings();
  return (implicit() ? loss - unweighted : loss) / 2;
}

}  // namespace unisono::models
