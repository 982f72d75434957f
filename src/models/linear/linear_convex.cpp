#include <limits>

#include "linear/linear_model.hpp"
#include "unisono/base/errors.hpp"

// Linear models on many examples with one θ: gradients, and products with the Hessian.

namespace unisono::models {
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
