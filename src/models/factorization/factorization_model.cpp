#include "factorization/factorization_model.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numeric>

#include "metrics.hpp"
#include "rows.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
FactorizationModel::FactorizationModel(const FactorizationSettings& settings, const ModelInputs& inputs,
                                       const ModelContext& context)
    : InPlaceModel("factorization"),
      settings_(settings),
      user_count_(inputs.rows),
      item_count_(inputs.columns),
      width_(round_up_to_line(settings.dimension)),
      stride_(width_ + kLineFloats),
      mean_(static_cast<float>(inputs.mean_value)),
      adagrad_(context.update_rule == "adagrad") {
  if (inputs.kind != SetKind::ratings) {
    throw ConfigError(
        fmt::format("model.kind = \"factorization\" takes ratings, but the set holds {}", name_of(inputs.kind)));
  }
  require_rule(context.update_rule, {"sgd", "adagrad"}, kind_);
  users_ = declare("users", user_count_);
  items_ = declare("items", item_count_);
}

/// A row: factors, filled up; bias, h, filled up.
Index FactorizationModel::declare(const std::string& name, Index rows) {
  std::vector<RowPart> parts = {{row_block(name + ".factors", rows, settings_.dimension, Role::weight), 0}};
  if (settings_.biases) parts.push_back({row_block(name + ".bias", rows, 0, Role::bias), width_});
  if (adagrad_) parts.push_back({row_block(name + ".squares", rows, 0, Role::state), width_ + 1});
  return layout_.add_rows(std::move(parts), stride_);
}

FactorRows FactorizationModel::rows_at(Index offset, MutableView parameters) const {
  return {.factors = {.values = parameters.data() + offset, .stride = stride_, .width = width_},
          .rank = settings_.dimension};
}

void FactorizationModel::initialise(std::uint64_t seed, ModelState state) const {
  std::fill(state.parameters.begin(), state.parameters.end(), 0.0F);
  const auto bound = static_cast<float>(settings_.initial_range / std::sqrt(static_cast<double>(settings_.dimension)));
  draw_rows(seed, 0, bound, user_count_, settings_.dimension, users(state.parameters).factors);
  draw_rows(seed, 1, bound, item_count_, settings_.dimension, items(state.parameters).factors);
  if (!adagrad_) return;
  fill_column(1, user_count_, width_ + 1, users(state.parameters).factors);
  fill_column(1, item_count_, width_ + 1, items(state.parameters).factors);
}

std::unique_ptr<Scratch> FactorizationModel::make_scratch() const { return std::make_unique<EntryScratch>(); }

std::vector<RowSpace> FactorizationModel::row_spaces() const {
  return {{"users", users_, stride_, user_count_}, {"items", items_, stride_, item_count_}};
}

std::vector<VectorTable> FactorizationModel::vectors() const {
  return {{.name = "users", .rows = user_count_, .width = settings_.dimension, .parts = {{users_, stride_}}},
          {.name = "items", .rows = item_count_, .width = settings_.dimension, .parts = {{items_, stride_}}}};
}

void FactorizationModel::update_in_place(const Batch& batch, ExampleRange range, const InPlaceStep& step,
                                         Scratch& scratch, LossSums& sums) const {
  const FactorStep with{.rate = static_cast<float>(step.rate),
                        .mean = mean_,
                        .user_l2 = static_cast<float>(settings_.user_l2),
                        .item_l2 = static_cast<float>(settings_.item_l2),
                        .adagrad = adagrad_,
                        .biases = settings_.biases};
  const FactorRows user_rows = users(step.parameters), item_rows = items(step.parameters);
  update_entries(entries_of(batch, range), step, scratch, sums,
                 [&](SparseEntries entries) { return kernels_->factorize(entries, with, user_rows, item_rows); });
}

float FactorizationModel::rating(Index user, Index item, MutableView parameters) const {
  const FactorRows u = users(parameters), i = items(parameters);
  const float *const p = u.factors.row(user), *const q = i.factors.row(item);
  std::array<float, kLineFloats> sums{};  // rows are filled up with zeros
  for (Index k = 0; k < width_; k += kLineFloats) {
    for (Index lane = 0; lane < kLineFloats; ++lane) sums[static_cast<std::size_t>(lane)] += p[k + lane] * q[k + lane];
  }
  return mean_ + *u.bias(user) + *i.bias(item) + std::accumulate(sums.begin(), sums.end(), 0.0F);
}

void FactorizationModel::evaluate(const Batch& batch, ModelState state, LossSums& sums) {
  for (const ExampleRange& range : batch.ranges) {
    for (const SparseEntry& entry : entries_of(batch, range)) {
      const double error = static_cast<double>(rating(entry.row, entry.column, state.parameters) - entry.value);
      sums.loss += error * error / 2;
      sums.squared_error += error * error;
      sums.absolute_error += std::abs(error);
    }
    sums.examples += range.size();
    sums.values += range.size();
  }
}

void FactorizationModel::predict(const Batch& batch, ModelState state, MutableView outputs) {
  std::size_t i = 0;
  for (const ExampleRange& range : batch.ranges) {
    for (const SparseEntry& entry : entries_of(batch, range)) {
      outputs[i++] = rating(entry.row, entry.column, state.parameters);
    }
  }
}

std::vector<Metric> FactorizationModel::metrics(const LossSums& sums) const {
  return {{"loss", ratio(sums.loss, sums.examples), false},
          {"rmse", std::sqrt(ratio(sums.squared_error, sums.values)), false},
          {"mae", ratio(sums.absolute_error, sums.values), false}};
}

std::vector<LayerSummary> FactorizationModel::summary(Index) const {
  const auto row = [&](std::string name, Index rows) {
    return LayerSummary{.name = std::move(name),
                        .kind = "factors",
                        .output = std::to_string(settings_.dimension),
                        .parameters = rows * (settings_.dimension + (settings_.biases ? 1 : 0)),
                        .flops_per_example = flops_per_example() / 2,
                        .activation_bytes = 0};
  };
  return {row("users", user_count_), row("items", item_count_)};
}

/// The product 2K; the two rows' gradients and steps 5K each, with their norms 2K more.
double FactorizationModel::flops_per_example() const {
  return static_cast<double>(settings_.dimension) * (adagrad_ ? 16 : 12);
}

}  // namespace unisono
