#include <algorithm>
#include <cmath>
#include <limits>

#include "in_place_model.hpp"
#include "linear/linear_model.hpp"
#include "unisono/base/errors.hpp"

// Linear models on whole batches: losses, gradients, predictions.
namespace unisono::models {
namespace {

double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

/// Returns −ln softmax(z)[label], and overwrites z with softmax(z).
double softmax_loss(std::span<float> z, std::size_t label) {
  const float largest = *std::max_element(z.begin(), z.end());
  double sum = 0;
  const double own = static_cast<double>(z[label] - largest);
  for (float& value : z) {
    value = std::exp(value - largest);
    sum += static_cast<double>(value);
  }
  for (float& value : z) value = static_cast<float>(static_cast<double>(value) / sum);
  return std::log(sum) - own;
}

/// The labels of a batch, or its targets, in the order of its examples: a table may have both.
std::vector<float> answers_of(const data::Batch& batch, bool targets) {
  if (batch.set == nullptr && targets) return {batch.targets.begin(), batch.targets.end()};
  return models::answers_of(batch);
}

}  // namespace

std::vector<float> LinearModel::margins(const data::Batch& batch, Place at, MutableView parameters) const {
  const Index k = outputs();
  std::vector<float> margins(static_cast<std::size_t>(batch.size * k));
  if (batch.set != nullptr) {
    const SparseRows& rows = std::get<data::LabelledRows>(*batch.set).rows;
    MutableView left = margins;
    for (const data::ExampleRange& range : batch.ranges) {
      const auto count = static_cast<std::size_t>(range.size() * k);
      if (loss_ == Kind::softmax) {
        kernels_->margins(rows, range.first, range.last, softmax_weights(at, parameters), left.first(count));
      } else {
        kernels_->margins(rows, range.first, range.last, margin_weights(at, parameters), left.first(count));
      }
      left = left.subspan(count);
    }
    return margins;
  }
  const float* const weights = parameters.data() + at.weights;
  for (Index i = 0; i < batch.size; ++i) {
    float* const z = margins.data() + i * k;
    for (Index c = 0; c < k; ++c) z[c] = at.bias < 0 ? 0.0F : parameters[static_cast<std::size_t>(at.bias + c)];
    const float* const x = batch.features.data() + i * features_;
    for (Index j = 0; j < features_; ++j) {
      if (x[j] == 0) continue;
      for (Index c = 0; c < k; ++c) z[c] += x[j] * weights[j * width_ + c];
    }
  }
  return margins;
}

std::vector<float> LinearModel::mean_margins(const data::Batch& batch, MutableView parameters) const {
  std::vector<float> z = margins(batch, weights_, parameters);
  if (const float share = share_of_sums(parameters); share != 0) {
    const std::vector<float> of_sums = margins(batch, sums_, parameters);
    for (std::size_t i = 0; i < z.size(); ++i) z[i] += share * of_sums[i];
  }
  return z;
}

void LinearModel::score(View targets, std::vector<float>& margins, kernels::LossSums& sums) const {
  const auto k = static_cast<std::size_t>(outputs());
  sums.examples += static_cast<std::int64_t>(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    float& z = margins[i * k];
    const float target = targets[i];
    if (loss_ == Kind::softmax) {
      const std::span<float> row(&z, k);
      const auto label = static_cast<std::size_t>(target);
      const bool hit = std::max_element(row.begin(), row.end()) - row.begin() == static_cast<std::ptrdiff_t>(label);
      sums.correct += hit ? 1 : 0;
      sums.loss += softmax_loss(row, label);
    } else if (loss_ == Kind::squared) {
      const double error = static_cast<double>(z) - static_cast<double>(target);
      sums.loss += error * error / 2;
      sums.squared_error += error * error;
      sums.absolute_error += std::abs(error);
      ++sums.values;
      sums.target_sum += static_cast<double>(target);
      sums.target_squared_sum += static_cast<double>(target) * static_cast<double>(target);
    } else {
      const double y = target > 0 ? 1 : -1, yz = y * static_cast<double>(z);
      sums.correct += (z > 0) == (target > 0) ? 1 : 0;  // a score of 0 is of the first class, as in predict
      const double slack = std::max(0.0, 1 - yz);
      sums.loss += loss_ == Kind::hinge ? slack : loss_ == Kind::squared_hinge ? slack * slack : softplus(-yz);
      if (std::isnan(z)) sums.loss = yz;
    }
  }
}

void LinearModel::add_penalty_gradient(float share, View parameters, MutableView gradient) const {
  if (!penalised()) return;
  const auto l1 = static_cast<float>(settings_.l1), l2 = static_cast<float>(settings_.l2);
  for (Index i = weights_.weights; i < weights_.weights + features_ * width_; ++i) {
    const float w = parameters[static_cast<std::size_t>(i)];
    gradient[static_cast<std::size_t>(i)] += share * (l2 * w + (w > 0 ? l1 : w < 0 ? -l1 : 0.0F));
  }
}

void LinearModel::require_gradient() const {
  if (!settings_.averaged) return;
  throw ConfigError(
      "model.averaged: this strategy trains with gradients of batches, but only in-place updates can be averaged; set "
      "it to false");
}

double LinearModel::penalty(View parameters) const {
  double l1 = 0, l2 = 0;
  for (Index i = weights_.weights; penalised() && i < weights_.weights + features_ * width_; ++i) {
    const double w = static_cast<double>(parameters[static_cast<std::size_t>(i)]);
    l1 += std::abs(w);
    l2 += w * w;
  }
  return settings_.l1 * l1 + settings_.l2 / 2 * l2;
}

void LinearModel::loss_and_gradient(const data::Batch& batch, float scale, ModelState state,
                                    const GradientTarget& target, kernels::LossSums& sums) {
  require_gradient();
  if (target.write == kernels::Write::overwrite) std::ranges::fill(target.gradient, 0.0F);
  add_data_gradient(batch, scale, state.parameters, target.gradient, sums);
  add_penalty_gradient(scale * static_cast<float>(batch.size), state.parameters, target.gradient);
  if (target.ready) target.ready(0, layout_.size());
}

void LinearModel::evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) {
  if (batch.size == 0) return;
  std::vector<float> z = mean_margins(batch, state.parameters);
  score(answers_of(batch, loss_ == Kind::squared), z, sums);
}

void LinearModel::evaluate_predictions(const data::Batch& batch, ModelState state, kernels::LossSums& sums,
                                       PredictionReader& reader) {
  if (batch.size == 0) return;
  std::vector<float> z = mean_margins(batch, state.parameters);
  const std::vector<float> answers = answers_of(batch, loss_ == Kind::squared);
  score(answers, z, sums);
  if (loss_ == Kind::softmax || loss_ == Kind::squared || !reader.wants_predictions())
    return reader.read(z, answers, {});
  std::vector<float> rows(2 * z.size());
  for (std::size_t i = 0; i < z.size(); ++i) predict_two(z[i], &rows[2 * i]);
  reader.read(rows, answers, z);
}

void LinearModel::predict_two(float margin, float* outputs) const {
  const float one = gives_margins() ? margin : 1 / (1 + std::exp(-margin));
  outputs[0] = gives_margins() ? -one : 1 - one;
  outputs[1] = one;
}

void LinearModel::predict(const data::Batch& batch, ModelState state, MutableView outputs) {
  if (batch.size == 0) return;
  std::vector<float> z = mean_margins(batch, state.parameters);
  const auto k = static_cast<std::size_t>(this->outputs());
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch.size); ++i) {
    if (loss_ == Kind::softmax) {
      softmax_loss(std::span<float>(z).subspan(i * k, k), 0);
      std::copy_n(z.begin() + static_cast<std::ptrdiff_t>(i * k), k,
                  outputs.begin() + static_cast<std::ptrdiff_t>(i * k));
    } else if (loss_ == Kind::squared) {
      outputs[i] = z[i];
    } else {
      predict_two(z[i], &outputs[2 * i]);
    }
  }
}

std::vector<Metric> LinearModel::metrics(const kernels::LossSums& sums) const {
  std::vector<Metric> metrics = {metric_of("loss", ratio(sums.loss, sums.examples))};
  if (loss_ == Kind::squared) {
    metrics.push_back(metric_of("rmse", std::sqrt(ratio(sums.squared_error, sums.values))));
    metrics.push_back(metric_of("mae", ratio(sums.absolute_error, sums.values)));
    add_r2(sums, metrics);
    return metrics;
  }
  metrics.push_back(metric_of("accuracy", ratio(static_cast<double>(sums.correct), sums.examples)));
  return metrics;
}

// Linear models on many examples with one θ: gradients, and products with the Hessian.

namespace {

constexpr Index kMostHessianRows = 512;  ///< the matrix then fits a core's second cache
constexpr double kDenseRatio = 12, kSparseRatio = 2;

template <typename Float>
kernels::LinearVector<Float> vector_at(Index weights, Index bias, std::span<Float> values) {
  return {values.data() + weights, bias < 0 ? nullptr : values.data() + bias};
}

const float* from(View values, std::int64_t first) { return values.empty() ? nullptr : values.data() + first; }

}  // namespace

void LinearModel::require_smooth() const {
  if (loss_ != Kind::hinge) return;
  throw ConfigError(
      "model.loss = \"hinge\" has no derivative where yz = 1, but whole-batch methods need one everywhere; use "
      "model.loss = \"squared_hinge\"");
}

std::vector<PenalisedRange> LinearModel::penalties() const {
  if (!penalised()) return {};
  const Block& weights = layout_.block("linear.weight");
  return {{{weights.offset, weights.offset + weights.stored_size()}, settings_.l1, settings_.l2}};
}

kernels::LinearLossSpec LinearModel::loss_spec() const {
  if (loss_ == Kind::softmax) return {.classes = classes_, .width = width_};
  return {.margin = margin_loss()};
}

template <typename Visit>
void LinearModel::visit_examples(const data::Batch& batch, Visit visit) const {
  kernels::LinearExamples examples{.count = batch.size, .features = features_};
  if (batch.set == nullptr) {
    examples.values = batch.features.data();
    examples.targets = loss_ == Kind::squared ? batch.targets.data() : nullptr;
    examples.labels = batch.labels.data();
    examples.weights = from(batch.weights, 0);
    return visit(examples);
  }
  const auto& set = std::get<data::LabelledRows>(*batch.set);
  examples.rows = &set.rows;
  for (const data::ExampleRange& range : batch.ranges) {
    examples.first = range.first;
    examples.count = range.size();
    examples.targets = set.targets.data() + range.first;
    examples.weights = from(set.weights, range.first);
    visit(examples);
  }
}

void LinearModel::add_data_gradient(const data::Batch& batch, float scale, View parameters, MutableView gradient,
                                    kernels::LossSums& sums) {
  visit_examples(batch, [&](const kernels::LinearExamples& examples) {
    passes_->gradient(examples, loss_spec(), scale, vector_at(weights_.weights, weights_.bias, parameters),
                      vector_at(weights_.weights, weights_.bias, gradient), sums);
  });
}

void LinearModel::add_hessian_product(const data::Batch& batch, float scale, View parameters, View v,
                                      MutableView product) {
  visit_examples(batch, [&](const kernels::LinearExamples& examples) {
    passes_->hessian_product(examples, loss_spec(), scale, vector_at(weights_.weights, weights_.bias, parameters),
                             vector_at(weights_.weights, weights_.bias, v),
                             vector_at(weights_.weights, weights_.bias, product));
  });
}

Index LinearModel::pass_bytes(Index batch) const {
  return passes_->most_floats(batch, features_, width_) * static_cast<Index>(sizeof(float));
}

Index LinearModel::kept_bytes(Index examples, double row_values) const {
  return loss_ == Kind::softmax || row_values == 0 ? 0 : passes_->kept_bytes(examples, features_, row_values);
}

/// A sparse row of r values adds r (r + 1) / 2 products to the matrix, a contiguous one's are made by fast matrix
/// products. A product with the Hessian uses each value twice (bench_kernels: logistic_pass).
double LinearModel::hessian_cost(double row_values) const {
  const bool possible = loss_ != Kind::softmax && features_ < kMostHessianRows;
  if (!possible) return std::numeric_limits<double>::infinity();
  return row_values > 0 ? 1 + row_values / kSparseRatio : 1 + static_cast<double>(features_) / kDenseRatio;
}

void LinearModel::add_hessian(const data::Batch& batch, float scale, View parameters, MutableView matrix) {
  const Index n = std::ssize(parameters), weights = weights_.weights, bias = weights_.bias;
  kernels::LinearHessian hessian{.weights = matrix.data() + weights * (n + 1), .stride = n};
  if (bias >= 0) {
    hessian.bias = matrix.data() + bias * n + weights;
    hessian.bias_bias = matrix.data() + bias * (n + 1);
  }
  visit_examples(batch, [&](const kernels::LinearExamples& examples) {
    passes_->hessian(examples, loss_spec(), scale, vector_at(weights_.weights, weights_.bias, parameters), hessian);
  });
}

}  // namespace unisono::models
