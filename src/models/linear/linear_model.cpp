#include "linear/linear_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "rows.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

class LinearScratch final : public Scratch {
 public:
  RowLocks::Set rows;
  std::vector<float> answers;
};

double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

}  // namespace

LinearModel::Kind LinearModel::kind_of(const std::string& loss, const ModelInputs& inputs) {
  const auto refuse = [&](std::string_view why) {
    throw ConfigError(fmt::format("model.loss = \"{}\": {}", loss, why));
  };
  if (inputs.kind != SetKind::table && inputs.kind != SetKind::sparse) {
    throw ConfigError(fmt::format("model.kind = \"linear\" takes sparse rows or a table, but the set holds {}",
                                  name_of(inputs.kind)));
  }
  const bool classes = inputs.classes > 0;
  if (loss == "auto") {
    if (classes) return inputs.classes == 2 ? Kind::logistic : Kind::softmax;
    if (inputs.target_size == 1) return Kind::squared;
    refuse("the set has neither labels nor one target an example");
  }
  if (loss == "squared") {
    if (inputs.target_size != 1) refuse("it takes one target an example, and the set has none, or more");
    return Kind::squared;
  }
  if (!classes) refuse("it takes labels, and the set has none; use \"squared\" for targets");
  if (loss == "softmax") return Kind::softmax;
  if (inputs.classes != 2) {
    refuse(fmt::format("it takes two classes, and the set has {}; use \"softmax\"", inputs.classes));
  }
  return loss == "hinge" ? Kind::hinge : Kind::logistic;
}

LinearModel::LinearModel(const LinearSettings& settings, const ModelInputs& inputs, const ModelContext& context)
    : settings_(settings),
      loss_(kind_of(settings.loss, inputs)),
      row_values_(inputs.row_values > 0 ? inputs.row_values : static_cast<double>(inputs.features.size())),
      features_(inputs.features.size()),
      classes_(inputs.classes),
      width_(loss_ == Kind::softmax ? round_up_to_line(classes_) : 1),
      kernels_(make_in_place_kernels()) {
  declare();
  prepare_penalties(context);
}

void LinearModel::declare() {
  const auto block = [&](std::string name, std::vector<Index> shape, Role role) {
    return Block{.name = std::move(name), .shape = std::move(shape), .role = role, .initialiser = "zeros"};
  };
  const auto matrix = [&](std::string name, Role role) {
    if (loss_ != Kind::softmax) return layout_.add(block(std::move(name), {features_}, role));
    return layout_.add_rows({{block(std::move(name), {features_, classes_}, role)}}, width_);
  };
  weights_ = matrix("linear.weight", Role::weight);
  if (settings_.bias) bias_ = layout_.add(block("linear.bias", {outputs()}, Role::bias));
  if (!settings_.averaged) return;
  weight_sums_ = matrix("linear.weight_sum", Role::state);
  if (settings_.bias) bias_sum_ = layout_.add(block("linear.bias_sum", {outputs()}, Role::state));
  updates_ = layout_.add(block("linear.updates", {1}, Role::state));
}

void LinearModel::prepare_penalties(const ModelContext& context) {
  if (!penalised()) return;
  const auto counts = context.occurrences ? context.occurrences() : std::span<const std::int64_t>();
  spread_.assign(static_cast<std::size_t>(features_), 1.0F);
  for (std::size_t j = 0; j < counts.size(); ++j) {
    spread_[j] =
        static_cast<float>(context.training_examples) / static_cast<float>(std::max<std::int64_t>(1, counts[j]));
  }
}

void LinearModel::initialise(std::uint64_t, ModelState state) const {
  std::fill(state.parameters.begin(), state.parameters.end(), 0.0F);
}

MarginLoss LinearModel::margin_loss() const {
  return loss_ == Kind::hinge ? MarginLoss::hinge : loss_ == Kind::squared ? MarginLoss::squared : MarginLoss::logistic;
}

LinearWeights LinearModel::margin_weights(MutableView parameters) const {
  const auto at = [&](Index offset) { return offset < 0 ? nullptr : parameters.data() + offset; };
  return {.weights = at(weights_), .bias = at(bias_), .weight_sums = at(weight_sums_), .bias_sum = at(bias_sum_)};
}

SoftmaxWeights LinearModel::softmax_weights(MutableView parameters) const {
  const auto at = [&](Index offset) { return offset < 0 ? nullptr : parameters.data() + offset; };
  return {.weights = {.values = at(weights_), .stride = width_, .width = width_},
          .bias = at(bias_),
          .weight_sums = {.values = at(weight_sums_), .stride = width_, .width = width_},
          .bias_sum = at(bias_sum_),
          .classes = classes_};
}

// In place
// -------------------------------------------------------------------------------------------------------------------

std::unique_ptr<Scratch> LinearModel::make_scratch() const { return std::make_unique<LinearScratch>(); }

std::vector<RowSpace> LinearModel::row_spaces() const {
  std::vector<RowSpace> spaces = {{"features", weights_, width_, features_}};
  if (weight_sums_ >= 0) spaces.push_back({"sums", weight_sums_, width_, features_});
  return spaces;
}

std::vector<VectorTable> LinearModel::vectors() const {
  if (settings_.averaged) return {};
  std::vector<VectorTable> tables = {
      {.name = "features", .rows = features_, .width = outputs(), .parts = {{weights_, width_}}}};
  if (bias_ >= 0) tables.push_back({.name = "bias", .rows = 1, .width = outputs(), .parts = {{bias_, outputs()}}});
  return tables;
}

LinearModel::Part LinearModel::part_of(const Batch& batch, ExampleRange range, std::vector<float>& answers) const {
  const auto first = static_cast<std::size_t>(range.first), count = static_cast<std::size_t>(range.size());
  if (batch.set != nullptr) {
    const auto& set = std::get<LabelledRows>(*batch.set);
    return {.rows = &set.rows, .answers = set.answers, .first = range.first, .count = range.size()};
  }
  const auto width = static_cast<std::size_t>(features_);
  Part part{.values = batch.features.subspan(first * width, count * width), .count = range.size()};
  if (loss_ == Kind::squared) {
    part.answers = batch.targets.subspan(first, count);
  } else {
    answers.assign(batch.labels.begin() + range.first, batch.labels.begin() + range.last);
    part.answers = answers;
  }
  return part;
}

LinearStep LinearModel::linear_step(const InPlaceStep& step, std::int64_t examples_before) const {
  return {.rate = static_cast<float>(step.rate),
          .l1 = static_cast<float>(settings_.l1),
          .l2 = static_cast<float>(settings_.l2),
          .spread = spread_.empty() ? nullptr : spread_.data(),
          .updates_before = static_cast<double>(examples_before)};
}

void LinearModel::update(const Part& part, const InPlaceStep& step, std::int64_t examples_before,
                         LossSums& sums) const {
  const LinearStep with = linear_step(step, examples_before);
  if (loss_ == Kind::softmax) {
    const SoftmaxWeights weights = softmax_weights(step.parameters);
    add(part.rows != nullptr
            ? kernels_->softmax(*part.rows, part.answers, part.first, part.first + part.count, with, weights)
            : kernels_->softmax(part.values, part.answers, part.count, features_, with, weights),
        sums);
    return;
  }
  const LinearWeights weights = margin_weights(step.parameters);
  add(part.rows != nullptr
          ? kernels_->linear(*part.rows, part.answers, part.first, part.first + part.count, margin_loss(), with,
                             weights)
          : kernels_->linear(part.values, part.answers, part.count, features_, margin_loss(), with, weights),
      sums);
}

/// Example i of a part.
LinearModel::Part LinearModel::one_of(const Part& part, Index i) const {
  Part one = part;
  one.count = 1;
  one.first = part.first + i;
  if (part.rows != nullptr) return one;
  const auto width = static_cast<std::size_t>(features_);
  one.answers = part.answers.subspan(static_cast<std::size_t>(i), 1);
  one.values = part.values.subspan(static_cast<std::size_t>(i) * width, width);
  return one;
}

/// Calls visit(j) for every feature of a part's examples, as often as they have it; of a table for all, once.
template <typename Visit>
void LinearModel::for_each_feature(const Part& part, Visit visit) const {
  if (part.rows == nullptr) {
    for (Index j = 0; j < features_; ++j) visit(j);
    return;
  }
  const auto& offsets = part.rows->offsets;
  const auto last = offsets[static_cast<std::size_t>(part.first + part.count)];
  for (auto i = offsets[static_cast<std::size_t>(part.first)]; i < last; ++i) visit(part.rows->columns[i]);
}

void LinearModel::mark(const Part& part, TouchedRows& touched) const {
  for_each_feature(part, [&](Index j) {
    touched.mark(0, j);
    if (weight_sums_ >= 0) touched.mark(1, j);
  });
}

std::optional<RowLocks::Guard> LinearModel::enter(const Part& one, const InPlaceStep& step, RowLocks::Set& rows) const {
  if (step.meter != nullptr) {
    step.meter->begin(step.thread);
    for_each_feature(one, [&](Index j) { step.meter->touch(step.thread, 0, j); });
  }
  if (step.locks == nullptr) return {};
  rows.clear();
  if (settings_.bias) rows.add(*step.locks, 1, 0);
  for_each_feature(one, [&](Index j) { rows.add(*step.locks, 0, j); });
  return step.locks->lock(rows);
}

/// The largest count that a thread has come to.
void LinearModel::note_updates(MutableView parameters, std::int64_t updates) const {
  if (updates_ < 0) return;
  std::atomic_ref<float> noted(parameters[static_cast<std::size_t>(updates_)]);
  const auto made = static_cast<float>(updates);
  float before = noted.load(std::memory_order_relaxed);
  while (before < made && !noted.compare_exchange_weak(before, made, std::memory_order_relaxed)) {
  }
}

void LinearModel::update_in_place(const Batch& batch, ExampleRange range, const InPlaceStep& step, Scratch& scratch,
                                  LossSums& sums) const {
  auto& own = static_cast<LinearScratch&>(scratch);
  const Part part = part_of(batch, range, own.answers);
  if (step.touched != nullptr) mark(part, *step.touched);
  if (step.one_by_one()) {
    for (Index i = 0; i < part.count; ++i) {
      const Part one = one_of(part, i);
      const auto guard = enter(one, step, own.rows);
      update(one, step, step.examples_before + i, sums);
    }
  } else {
    update(part, step, step.examples_before, sums);
  }
  note_updates(step.parameters, step.examples_before + range.size());
}

// On whole batches
// -------------------------------------------------------------------------------------------------------------------

MutableView LinearModel::effective(MutableView parameters) {
  if (updates_ < 0) return parameters;
  mean_.assign(parameters.begin(), parameters.end());
  const float updates = parameters[static_cast<std::size_t>(updates_)];
  if (updates == 0) return mean_;
  const auto subtract = [&](Index values, Index sums, Index count) {
    if (values < 0) return;
    for (Index i = 0; i < count; ++i) {
      mean_[static_cast<std::size_t>(values + i)] -= parameters[static_cast<std::size_t>(sums + i)] / updates;
    }
  };
  subtract(weights_, weight_sums_, features_ * width_);
  subtract(bias_, bias_sum_, outputs());
  return mean_;
}

void LinearModel::margins(const Batch& batch, MutableView parameters, std::vector<float>& margins) const {
  const Index k = outputs();
  margins.resize(static_cast<std::size_t>(batch.size * k));
  if (batch.set != nullptr) {
    const SparseRows& rows = std::get<LabelledRows>(*batch.set).rows;
    MutableView left = margins;
    for (const ExampleRange& range : batch.ranges) {
      const auto count = static_cast<std::size_t>(range.size() * k);
      if (loss_ == Kind::softmax) {
        kernels_->margins(rows, range.first, range.last, softmax_weights(parameters), left.first(count));
      } else {
        kernels_->margins(rows, range.first, range.last, margin_weights(parameters), left.first(count));
      }
      left = left.subspan(count);
    }
    return;
  }
  const float* const weights = parameters.data() + weights_;
  for (Index i = 0; i < batch.size; ++i) {
    float* const z = margins.data() + i * k;
    for (Index c = 0; c < k; ++c) z[c] = bias_ < 0 ? 0.0F : parameters[static_cast<std::size_t>(bias_ + c)];
    const float* const x = batch.features.data() + i * features_;
    for (Index j = 0; j < features_; ++j) {
      if (x[j] == 0) continue;
      for (Index c = 0; c < k; ++c) z[c] += x[j] * weights[j * width_ + c];
    }
  }
}

namespace {

/// −ln softmax(z)[label]; z becomes softmax(z).
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

}  // namespace

void LinearModel::score(View answers, std::vector<float>& margins, bool gradient, bool collect, LossSums& sums) const {
  const auto k = static_cast<std::size_t>(outputs());
  sums.examples += static_cast<std::int64_t>(answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    float& z = margins[i * k];
    const float answer = answers[i];
    if (loss_ == Kind::softmax) {
      const std::span<float> row(&z, k);
      const auto label = static_cast<std::size_t>(answer);
      const bool hit = std::max_element(row.begin(), row.end()) - row.begin() == static_cast<std::ptrdiff_t>(label);
      sums.correct += hit ? 1 : 0;
      sums.loss += softmax_loss(row, label);
      if (gradient) row[label] -= 1;
    } else if (loss_ == Kind::squared) {
      const double error = static_cast<double>(z) - static_cast<double>(answer);
      sums.loss += error * error / 2;
      sums.squared_error += error * error;
      sums.absolute_error += std::abs(error);
      ++sums.values;
      if (gradient) z = static_cast<float>(error);
    } else {
      const double y = answer > 0 ? 1 : -1, yz = y * static_cast<double>(z);
      sums.correct += yz > 0 ? 1 : 0;
      sums.loss += loss_ == Kind::hinge ? std::max(0.0, 1 - yz) : softplus(-yz);
      if (std::isnan(z)) sums.loss = yz;
      if (collect) (answer > 0 ? sums.positive_scores : sums.negative_scores).push_back(z);
      if (!gradient) continue;
      z = static_cast<float>(loss_ == Kind::hinge ? (yz < 1 ? -y : 0.0) : -y / (1 + std::exp(yz)));
    }
  }
}

std::vector<float> LinearModel::answers_of(const Batch& batch) const {
  if (batch.set == nullptr && loss_ == Kind::squared) return {batch.targets.begin(), batch.targets.end()};
  if (batch.set == nullptr) return {batch.labels.begin(), batch.labels.end()};
  std::vector<float> answers;
  const View all = std::get<LabelledRows>(*batch.set).answers;
  for (const ExampleRange& range : batch.ranges) {
    answers.insert(answers.end(), all.begin() + range.first, all.begin() + range.last);
  }
  return answers;
}

void LinearModel::add_gradient(const Batch& batch, const std::vector<float>& dz, float scale,
                               MutableView gradient) const {
  const Index k = outputs();
  float* const weights = gradient.data() + weights_;
  const auto add_feature = [&](Index j, float x, const float* d) {
    for (Index c = 0; c < k; ++c) weights[j * width_ + c] += scale * x * d[c];
  };
  const float* d = dz.data();
  if (batch.set == nullptr) {
    for (Index i = 0; i < batch.size; ++i, d += k) {
      const float* const x = batch.features.data() + i * features_;
      for (Index j = 0; j < features_; ++j) {
        if (x[j] != 0) add_feature(j, x[j], d);
      }
    }
  } else {
    const SparseRows& rows = std::get<LabelledRows>(*batch.set).rows;
    for (const ExampleRange& range : batch.ranges) {
      for (std::int64_t i = range.first; i < range.last; ++i, d += k) {
        const auto last = rows.offsets[static_cast<std::size_t>(i) + 1];
        for (auto e = rows.offsets[static_cast<std::size_t>(i)]; e < last; ++e) {
          add_feature(rows.columns[e], rows.values.empty() ? 1.0F : rows.values[e], d);
        }
      }
    }
  }
  if (bias_ < 0) return;
  d = dz.data();
  for (Index i = 0; i < batch.size; ++i, d += k) {
    for (Index c = 0; c < k; ++c) gradient[static_cast<std::size_t>(bias_ + c)] += scale * d[c];
  }
}

void LinearModel::add_penalty_gradient(float share, View parameters, MutableView gradient) const {
  if (!penalised()) return;
  const auto l1 = static_cast<float>(settings_.l1), l2 = static_cast<float>(settings_.l2);
  for (Index i = weights_; i < weights_ + features_ * width_; ++i) {
    const float w = parameters[static_cast<std::size_t>(i)];
    gradient[static_cast<std::size_t>(i)] += share * (l2 * w + (w > 0 ? l1 : w < 0 ? -l1 : 0.0F));
  }
}

void LinearModel::require_gradient() const {
  if (!settings_.averaged) return;
  throw ConfigError(
      "model.averaged: the strategy trains on gradients of batches, and only updates in place can be averaged; set "
      "it to false, or use strategy.kind = \"serial\" or \"hogwild\"");
}

void LinearModel::loss_and_gradient(const Batch& batch, float scale, ModelState state, MutableView gradient,
                                    Write write, const GradientReady& ready, LossSums& sums) {
  require_gradient();
  if (write == Write::overwrite) std::fill(gradient.begin(), gradient.end(), 0.0F);
  std::vector<float> z;
  margins(batch, state.parameters, z);
  score(answers_of(batch), z, /*gradient=*/true, /*collect=*/false, sums);
  add_gradient(batch, z, scale, gradient);
  add_penalty_gradient(scale * static_cast<float>(batch.size), state.parameters, gradient);
  if (ready) ready(0, layout_.size());
}

void LinearModel::evaluate(const Batch& batch, ModelState state, LossSums& sums) {
  if (batch.size == 0) return;
  std::vector<float> z;
  margins(batch, effective(state.parameters), z);
  score(answers_of(batch), z, /*gradient=*/false, /*collect=*/true, sums);
}

void LinearModel::predict(const Batch& batch, ModelState state, MutableView outputs) {
  if (batch.size == 0) return;
  std::vector<float> z;
  margins(batch, effective(state.parameters), z);
  const auto k = static_cast<std::size_t>(this->outputs());
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch.size); ++i) {
    if (loss_ == Kind::softmax) {
      softmax_loss(std::span<float>(z).subspan(i * k, k), 0);
      std::copy_n(z.begin() + static_cast<std::ptrdiff_t>(i * k), k,
                  outputs.begin() + static_cast<std::ptrdiff_t>(i * k));
    } else if (loss_ == Kind::squared) {
      outputs[i] = z[i];
    } else {
      const float one = loss_ == Kind::hinge ? z[i] : 1 / (1 + std::exp(-z[i]));
      outputs[2 * i] = loss_ == Kind::hinge ? -one : 1 - one;
      outputs[2 * i + 1] = one;
    }
  }
}

std::vector<LayerSummary> LinearModel::summary(Index) const {
  return {{.name = "linear",
           .kind = loss_ == Kind::softmax    ? "softmax"
                   : loss_ == Kind::logistic ? "logistic"
                   : loss_ == Kind::hinge    ? "hinge"
                                             : "squared",
           .output = std::to_string(output_size()),
           .parameters = layout_.parameters(),
           .flops_per_example = flops_per_example(),
           .activation_bytes = 0}};
}

/// A multiplication and an addition each for the margin and for the gradient of every weight.
double LinearModel::flops_per_example() const { return 4.0 * row_values_ * static_cast<double>(outputs()); }

Index LinearModel::workspace_bytes(Index batch) const {
  return batch * (outputs() + 1) * static_cast<Index>(sizeof(float)) +
         (updates_ >= 0 ? layout_.size() * static_cast<Index>(sizeof(float)) : 0);
}

}  // namespace unisono
