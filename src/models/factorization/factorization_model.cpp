#include "factorization/factorization_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "unisono/base/errors.hpp"

namespace unisono::models {

FactorizationModel::FactorizationModel(const FactorizationSettings& settings, const ModelInputs& inputs,
                                       const ModelContext& context)
    : InPlaceModel("factorization"),
      settings_(settings),
      user_count_(inputs.rows),
      item_count_(inputs.columns),
      width_(round_up_to_line(settings.dimension)),
      stride_(width_ + kLineFloats),
      examples_(context.training_examples),
      mean_(settings.feedback == Feedback::implicit ? 0.0F : static_cast<float>(inputs.mean_value)),
      adagrad_(context.update_rule == "adagrad") {
  if (inputs.kind != data::SetKind::ratings) {
    throw ConfigError(fmt::format("model.kind = \"factorization\" needs ratings, but the data set holds {}",
                                  data::name_of(inputs.kind)));
  }
  require_rule(context.update_rule, {"sgd", "adagrad", "als"}, kind_);
  if (context.update_rule == "als") {
    require_least_squares();
    least_squares_ = kernels::make_least_squares_kernels();
  } else if (implicit()) {
    throw ConfigError(
        "model.feedback = \"implicit\": only alternating least squares can train it, because all pairs of users and "
        "items count; use optimizer.kind = \"als\"");
  }
  users_ = declare("users", user_count_);
  items_ = declare("items", item_count_);
  if (has_own_l2() && context.occurrences) take_counts(context.occurrences());
}

void FactorizationModel::take_counts(std::span<const std::int64_t> counts) {
  const std::array penalties = {settings_.user_l2, settings_.item_l2};
  const std::array parts = {counts.first(static_cast<std::size_t>(user_count_)),
                            counts.subspan(static_cast<std::size_t>(user_count_))};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const std::int64_t n : parts[i]) {
      own_l2_[i].push_back(static_cast<float>(penalties[i] / static_cast<double>(std::max<std::int64_t>(1, n))));
    }
  }
}

/// A row: factors, filled up; bias, h, its own λ, filled up.
Index FactorizationModel::declare(const std::string& name, Index rows) {
  std::vector<InterleavedBlock> parts = {{row_block(name + ".factors", rows, settings_.dimension, Role::weight), 0}};
  if (settings_.biases) parts.push_back({row_block(name + ".bias", rows, 0, Role::bias), width_});
  if (adagrad_) parts.push_back({row_block(name + ".squares", rows, 0, Role::state), width_ + 1});
  if (has_own_l2()) parts.push_back({row_block(name + ".l2", rows, 0, Role::state), width_ + 2});
  return layout_.add_rows(std::move(parts), stride_);
}

kernels::FactorRows FactorizationModel::rows_at(float* first) const {
  return {.factors = {.values = first, .stride = stride_, .width = width_}, .rank = settings_.dimension};
}

void FactorizationModel::initialise(std::uint64_t seed, ModelState state) const {
  const WholeHolding parameters(layout_), statistics(statistics_layout());
  initialise_held(seed, {parameters, statistics}, state);
}

/// Each of a rank's shards is whole rows. A row begins with its factors, and has the stride of the layout.
void FactorizationModel::initialise_held(std::uint64_t seed, const HeldModel& held, ModelState state) const {
  for (const Shard& shard : held.parameters.shards()) {
    const Index block = layout_.blocks()[shard.block].offset;
    if (block != users_ && block != items_) continue;
    const AxisRange& rows = shard.box.front();
    initialise_rows(seed, block == users_ ? 0 : 1, {.first = rows.first, .step = rows.step, .count = rows.count},
                    state.parameters.data() + shard.place.offset);
  }
}

void FactorizationModel::initialise_rows(std::uint64_t seed, std::size_t space, RowSeries series, float* rows) const {
  std::fill_n(rows, series.count * stride_, 0.0F);
  const auto bound = static_cast<float>(settings_.initial_range / std::sqrt(static_cast<double>(settings_.dimension)));
  const kernels::RowMatrix factors = rows_at(rows).factors;
  draw_rows(seed, static_cast<std::uint32_t>(space), bound, series, settings_.dimension, factors);
  if (adagrad_) fill_column(1, series.count, width_ + 1, factors);
  for (Index row = 0; row < series.count && !own_l2_[space].empty(); ++row) {
    *rows_at(rows).l2(row) = own_l2_[space][static_cast<std::size_t>(series.first + row * series.step)];
  }
}

std::unique_ptr<Scratch> FactorizationModel::make_scratch() const { return std::make_unique<EntryScratch>(); }

std::vector<RowSpace> FactorizationModel::row_spaces() const {
  return {{"users", users_, stride_, user_count_}, {"items", items_, stride_, item_count_}};
}

std::vector<VectorTable> FactorizationModel::vectors(View) const {
  return {{.name = "users", .rows = user_count_, .width = settings_.dimension, .parts = {{users_, stride_}}},
          {.name = "items", .rows = item_count_, .width = settings_.dimension, .parts = {{items_, stride_}}}};
}

void FactorizationModel::mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch&,
                                   TouchedRows& touched) const {
  mark_entries(entries_of(batch, range), touched);
}

void FactorizationModel::update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step,
                                         Scratch& scratch, kernels::LossSums& sums) const {
  const kernels::FactorStep with = step_at(step.rate);
  const TableParts parts = tables(step.parameters);
  const kernels::FactorRows user_rows = rows_at(parts.rows), item_rows = rows_at(parts.columns);
  update_entries(entries_of(batch, range), step, scratch, sums,
                 [&](data::SparseEntries entries) { return kernels_->factorize(entries, with, user_rows, item_rows); });
}

void FactorizationModel::update_part(data::SparseEntries entries, double rate, const TableParts& parts,
                                     kernels::LossSums& sums) const {
  add(kernels_->factorize(entries, step_at(rate), rows_at(parts.rows), rows_at(parts.columns)), sums);
}

kernels::FactorStep FactorizationModel::step_at(double rate) const {
  return {.rate = static_cast<float>(rate),
          .mean = mean_,
          .user_l2 = static_cast<float>(settings_.user_l2),
          .item_l2 = static_cast<float>(settings_.item_l2),
          .adagrad = adagrad_,
          .biases = settings_.biases,
          .own_l2 = has_own_l2()};
}

float FactorizationModel::rating(Index user, Index item, const TableParts& parts) const {
  const kernels::FactorRows u = rows_at(parts.rows), i = rows_at(parts.columns);
  const float *const p = u.factors.row(user), *const q = i.factors.row(item);
  std::array<float, kLineFloats> sums{};  // rows are filled up with zeros
  for (Index k = 0; k < width_; k += kLineFloats) {
    for (Index lane = 0; lane < kLineFloats; ++lane) sums[static_cast<std::size_t>(lane)] += p[k + lane] * q[k + lane];
  }
  return mean_ + *u.bias(user) + *i.bias(item) + std::accumulate(sums.begin(), sums.end(), 0.0F);
}

void FactorizationModel::evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) {
  for (const data::ExampleRange& range : batch.ranges) {
    evaluate_part(entries_of(batch, range), tables(state.parameters), sums);
  }
}

void FactorizationModel::evaluate_part(data::SparseEntries entries, const TableParts& parts,
                                       kernels::LossSums& sums) const {
  for (const SparseEntry& entry : entries) {
    const float target = target_of(entry.value);
    const double error = static_cast<double>(rating(entry.row, entry.column, parts) - target);
    sums.loss += weight_of(entry.value) * error * error / 2;
    sums.squared_error += error * error;
    sums.absolute_error += std::abs(error);
    sums.target_sum += static_cast<double>(target);
    sums.target_squared_sum += static_cast<double>(target) * static_cast<double>(target);
  }
  sums.examples += static_cast<std::int64_t>(entries.size());
  sums.values += static_cast<std::int64_t>(entries.size());
}

void FactorizationModel::predict(const data::Batch& batch, ModelState state, MutableView outputs) {
  const TableParts all = tables(state.parameters);
  std::size_t i = 0;
  for (const data::ExampleRange& range : batch.ranges) {
    for (const SparseEntry& entry : entries_of(batch, range)) {
      outputs[i++] = rating(entry.row, entry.column, all);
    }
  }
}

std::vector<Metric> FactorizationModel::metrics(const kernels::LossSums& sums) const {
  std::vector<Metric> metrics = {metric_of("loss", ratio(sums.loss, sums.examples)),
                                 metric_of("rmse", std::sqrt(ratio(sums.squared_error, sums.values))),
                                 metric_of("mae", ratio(sums.absolute_error, sums.values))};
  add_r2(sums, metrics);
  return metrics;
}

std::vector<LayerSummary> FactorizationModel::summary(Index) const {
  const auto row = [&](std::string name, Index rows) {
    return LayerSummary{.name = std::move(name),
                        .kind = "factors",
                        .output = std::to_string(settings_.dimension),
                        .parameters = rows * (settings_.dimension + (settings_.biases ? 1 : 0)),
                        .flops_per_example = flops_per_example() / 2};
  };
  return {row("users", user_count_), row("items", item_count_)};
}

/// The product 2K; the two rows' gradients and steps 5K each, with their norms 2K more. By least squares: a share of
/// all rows' equations.
double FactorizationModel::flops_per_example() const {
  if (least_squares_) return least_squares_flops();
  return static_cast<double>(settings_.dimension) * (adagrad_ ? 16 : 12);
}

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
