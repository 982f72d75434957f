#include "linear/linear_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "in_place_model.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::models {

LinearModel::Kind LinearModel::kind_of(LinearLoss loss, const ModelInputs& inputs) {
  const auto refuse = [&](std::string_view why) {
    throw ConfigError(fmt::format("model.loss = \"{}\": {}", name_of(loss, kLinearLosses), why));
  };
  if (inputs.kind != data::SetKind::table && inputs.kind != data::SetKind::sparse) {
    throw ConfigError(fmt::format("model.kind = \"linear\" needs sparse rows or a table, but the data set holds {}",
                                  data::name_of(inputs.kind)));
  }
  const bool classes = inputs.classes > 0;
  if (loss == LinearLoss::automatic) {
    if (classes) return inputs.classes == 2 ? Kind::logistic : Kind::softmax;
    if (inputs.target_size == 1) return Kind::squared;
    refuse("the data set has neither labels nor one target per example");
  }
  if (loss == LinearLoss::squared) {
    if (inputs.target_size != 1) refuse("it needs one target per example, but the data set has none or several");
    return Kind::squared;
  }
  if (!classes) refuse("it needs labels, but the data set has none; use \"squared\" for targets");
  if (loss == LinearLoss::softmax) return Kind::softmax;
  if (inputs.classes != 2) {
    refuse(fmt::format("it needs two classes, but the data set has {}; use \"softmax\"", inputs.classes));
  }
  return loss == LinearLoss::hinge           ? Kind::hinge
         : loss == LinearLoss::squared_hinge ? Kind::squared_hinge
                                             : Kind::logistic;
}

LinearModel::LinearModel(const LinearSettings& settings, const ModelInputs& inputs, const ModelContext& context)
    : settings_(settings),
      loss_(kind_of(settings.loss, inputs)),
      row_values_(inputs.row_values > 0 ? inputs.row_values : static_cast<double>(inputs.features.size())),
      features_(inputs.features.size()),
      classes_(inputs.classes),
      width_(loss_ == Kind::softmax ? round_up_to_line(classes_) : 1),
      kernels_(kernels::make_in_place_kernels()),
      passes_(kernels::make_linear_passes(context.backend.threads())) {
  if (settings.mini_batch > 1 && loss_ == Kind::softmax) {
    throw ConfigError("model.mini_batch: softmax makes a step for each example; remove it, or choose another loss");
  }
  declare();
  prepare_penalties(context);
  prepare_bits(context);
}

void LinearModel::declare() {
  const auto block = [&](std::string name, std::vector<Index> shape, Role role) {
    return Block{.name = std::move(name), .shape = std::move(shape), .role = role, .initialiser = Initialiser::zeros};
  };
  const auto matrix = [&](std::string name, Role role) {
    if (loss_ != Kind::softmax) return layout_.add(block(std::move(name), {features_}, role));
    return layout_.add_rows({{block(std::move(name), {features_, classes_}, role)}}, width_);
  };
  weights_.weights = matrix("linear.weight", Role::weight);
  if (settings_.bias) weights_.bias = layout_.add(block("linear.bias", {outputs()}, Role::bias));
  if (!settings_.averaged) return;
  sums_.weights = matrix("linear.weight_sum", Role::state);
  if (settings_.bias) sums_.bias = layout_.add(block("linear.bias_sum", {outputs()}, Role::state));
  updates_ = layout_.add(block("linear.updates", {1}, Role::state));
}

void LinearModel::prepare_penalties(const ModelContext& context) {
  if (!penalised()) return;
  if (context.occurrences) make_spreads(context);
  if (loss_ == Kind::softmax || !kernels_->keeps_spreads(features_)) return;
  value_spreads_ = std::make_unique<VisitMemory>();
  const double values = row_values_ * static_cast<double>(context.training_examples);
  kept_bytes_ += static_cast<Index>(values) * static_cast<Index>(sizeof(float));
}

void LinearModel::prepare_bits(const ModelContext& context) {
  const bool possible = loss_ != Kind::softmax && settings_.mini_batch > 1 && settings_.l1 == 0 && !settings_.averaged;
  if (!possible || !kernels_->keeps_bits(features_, row_values_)) return;
  row_bits_ = std::make_unique<VisitMemory>();
  kept_bytes_ += context.training_examples * static_cast<Index>(sizeof(kernels::RowBits));
}

void LinearModel::initialise(std::uint64_t, ModelState state) const {
  std::fill(state.parameters.begin(), state.parameters.end(), 0.0F);
}

kernels::MarginLoss LinearModel::margin_loss() const {
  return loss_ == Kind::hinge           ? kernels::MarginLoss::hinge
         : loss_ == Kind::squared_hinge ? kernels::MarginLoss::squared_hinge
         : loss_ == Kind::squared       ? kernels::MarginLoss::squared
                                        : kernels::MarginLoss::logistic;
}

kernels::LinearWeights LinearModel::margin_weights(Place at, MutableView parameters) const {
  return {.weights = pointer_at(at.weights, parameters), .bias = pointer_at(at.bias, parameters)};
}

kernels::SoftmaxWeights LinearModel::softmax_weights(Place at, MutableView parameters) const {
  return {.weights = {.values = pointer_at(at.weights, parameters), .stride = width_, .width = width_},
          .bias = pointer_at(at.bias, parameters),
          .classes = classes_};
}

// In place

std::unique_ptr<Scratch> LinearModel::make_scratch() const { return std::make_unique<LinearScratch>(); }

std::vector<RowSpace> LinearModel::row_spaces() const {
  std::vector<RowSpace> spaces = {{"features", weights_.weights, width_, features_}};
  if (sums_.weights >= 0) spaces.push_back({"sums", sums_.weights, width_, features_});
  return spaces;
}

float LinearModel::share_of_sums(View parameters) const {
  const float updates = updates_ < 0 ? 0.0F : parameters[static_cast<std::size_t>(updates_)];
  return updates == 0 ? 0.0F : -1 / updates;
}

std::vector<VectorTable> LinearModel::vectors(View parameters) const {
  const float share = share_of_sums(parameters);
  const auto table = [&](std::string name, Index rows, Index stride, Index values, Index sums) {
    VectorTable made{.name = std::move(name), .rows = rows, .width = outputs(), .parts = {{values, stride}}};
    if (share != 0) made.parts.push_back({sums, stride, share});
    return made;
  };
  std::vector<VectorTable> tables = {table("features", features_, width_, weights_.weights, sums_.weights)};
  if (settings_.bias) tables.push_back(table("bias", 1, outputs(), weights_.bias, sums_.bias));
  return tables;
}

LinearModel::ExampleSlice LinearModel::part_of(const data::Batch& batch, data::ExampleRange range,
                                               std::vector<float>& targets) const {
  const auto first = static_cast<std::size_t>(range.first), count = static_cast<std::size_t>(range.size());
  if (batch.set != nullptr) {
    const auto& set = std::get<data::LabelledRows>(*batch.set);
    return {
        .rows = &set.rows, .targets = set.targets, .weights = set.weights, .first = range.first, .count = range.size()};
  }
  const auto width = static_cast<std::size_t>(features_);
  ExampleSlice part{.values = batch.features.subspan(first * width, count * width),
                    .weights = batch.weights.empty() ? View{} : batch.weights.subspan(first, count),
                    .count = range.size()};
  if (loss_ == Kind::squared) {
    part.targets = batch.targets.subspan(first, count);
  } else {
    targets.assign(batch.labels.begin() + range.first, batch.labels.begin() + range.last);
    part.targets = targets;
  }
  return part;
}

kernels::RowBits* LinearModel::bits_of(const SparseRows* rows, const InPlaceStep& step) const {
  if (!row_bits_ || !step.alone || rows == nullptr || !rows->values.empty()) return nullptr;
  return row_bits_->of<kernels::RowBits>(*rows, static_cast<std::size_t>(rows->rows()));
}

void LinearModel::make_spreads(const ModelContext& context) {
  const auto counts = context.occurrences();
  spread_.assign(static_cast<std::size_t>(features_), 1.0F);
  for (std::size_t j = 0; j < counts.size(); ++j) {
    spread_[j] =
        static_cast<float>(context.training_examples) / static_cast<float>(std::max<std::int64_t>(1, counts[j]));
  }
}

const float* LinearModel::spreads() const {
  if (!penalised()) return nullptr;
  std::call_once(spread_made_, [this] {
    if (spread_.empty()) spread_.assign(static_cast<std::size_t>(features_), 1.0F);
  });
  return spread_.data();
}

kernels::LinearStep LinearModel::linear_step(const ExampleSlice& part, const InPlaceStep& step,
                                             std::int64_t examples_before) const {
  return {.rate = static_cast<float>(step.rate),
          .l1 = static_cast<float>(settings_.l1),
          .l2 = static_cast<float>(settings_.l2),
          .spread = spreads(),
          .value_spread = value_spreads_ && part.rows != nullptr
                              ? value_spreads_->of<float>(*part.rows, part.rows->columns.size())
                              : nullptr,
          .alone = step.alone,
          .updates_before = static_cast<double>(examples_before),
          .mini_batch = settings_.mini_batch};
}

void LinearModel::update(const ExampleSlice& part, const InPlaceStep& step, std::int64_t examples_before,
                         kernels::LossSums& sums) const {
  kernels::LinearStep with = linear_step(part, step, examples_before);
  with.weights = part.weights.empty() ? nullptr : part.weights.data();
  if (loss_ == Kind::softmax) {
    kernels::SoftmaxWeights weights = softmax_weights(weights_, step.parameters);
    const kernels::SoftmaxWeights kept = softmax_weights(sums_, step.parameters);
    weights.weight_sums = kept.weights;
    weights.bias_sum = kept.bias;
    add(part.rows != nullptr
            ? kernels_->softmax(*part.rows, part.targets, part.first, part.first + part.count, with, weights)
            : kernels_->softmax(part.values, part.targets, part.count, features_, with, weights),
        sums);
    return;
  }
  with.row_bits = bits_of(part.rows, step);
  kernels::LinearWeights weights = margin_weights(weights_, step.parameters);
  weights.weight_sums = pointer_at(sums_.weights, step.parameters);
  weights.bias_sum = pointer_at(sums_.bias, step.parameters);
  add(part.rows != nullptr
          ? kernels_->linear(*part.rows, part.targets, part.first, part.first + part.count, margin_loss(), with,
                             weights)
          : kernels_->linear(part.values, part.targets, part.count, features_, margin_loss(), with, weights),
      sums);
}

/// The mini-batch of a part that begins with its example i.
LinearModel::ExampleSlice LinearModel::mini_batch_of(const ExampleSlice& part, Index i) const {
  ExampleSlice one = part;
  one.count = std::min<Index>(settings_.mini_batch, part.count - i);
  one.first = part.first + i;
  if (part.rows != nullptr) return one;
  const auto width = static_cast<std::size_t>(features_), count = static_cast<std::size_t>(one.count);
  one.targets = part.targets.subspan(static_cast<std::size_t>(i), count);
  if (!part.weights.empty()) one.weights = part.weights.subspan(static_cast<std::size_t>(i), count);
  one.values = part.values.subspan(static_cast<std::size_t>(i) * width, count * width);
  return one;
}

/// Calls visit(j) for every feature of a part's examples, once per example that has it; for a table once for each
/// feature.
template <typename Visit>
void LinearModel::for_each_feature(const ExampleSlice& part, Visit visit) const {
  if (part.rows == nullptr) {
    for (Index j = 0; j < features_; ++j) visit(j);
    return;
  }
  const auto& offsets = part.rows->offsets;
  const auto last = offsets[static_cast<std::size_t>(part.first + part.count)];
  for (auto i = offsets[static_cast<std::size_t>(part.first)]; i < last; ++i) visit(part.rows->columns[i]);
}

void LinearModel::mark(const ExampleSlice& part, TouchedRows& touched) const {
  for_each_feature(part, [&](Index j) {
    touched.mark(0, j);
    if (sums_.weights >= 0) touched.mark(1, j);
  });
}

std::optional<RowLocks::Guard> LinearModel::enter(const ExampleSlice& one, const InPlaceStep& step,
                                                  RowLocks::Set& rows) const {
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

/// Raises the stored number of updates to the largest that any thread has reached.
void LinearModel::note_updates(MutableView parameters, std::int64_t updates) const {
  if (updates_ < 0) return;
  std::atomic_ref<float> noted(parameters[static_cast<std::size_t>(updates_)]);
  const auto made = static_cast<float>(updates);
  float before = noted.load(std::memory_order_relaxed);
  while (before < made && !noted.compare_exchange_weak(before, made, std::memory_order_relaxed)) {
  }
}

void LinearModel::mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch& scratch,
                            TouchedRows& touched) const {
  mark(part_of(batch, range, static_cast<LinearScratch&>(scratch).targets), touched);
}

void LinearModel::update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step,
                                  Scratch& scratch, kernels::LossSums& sums) const {
  auto& own = static_cast<LinearScratch&>(scratch);
  const ExampleSlice part = part_of(batch, range, own.targets);
  if (step.touched != nullptr) mark(part, *step.touched);
  if (step.one_by_one()) {
    for (Index i = 0; i < part.count; i += settings_.mini_batch) {
      const ExampleSlice one = mini_batch_of(part, i);
      const auto guard = enter(one, step, own.rows);
      update(one, step, step.examples_before + i, sums);
    }
  } else {
    update(part, step, step.examples_before, sums);
  }
  note_updates(step.parameters, step.examples_before + range.size());
}

std::vector<LayerSummary> LinearModel::summary(Index) const {
  return {{.name = "linear",
           .kind = loss_ == Kind::softmax         ? "softmax"
                   : loss_ == Kind::logistic      ? "logistic"
                   : loss_ == Kind::hinge         ? "hinge"
                   : loss_ == Kind::squared_hinge ? "squared_hinge"
                                                  : "squared",
           .output = std::to_string(output_size()),
           .parameters = layout_.parameters(),
           .flops_per_example = flops_per_example()}};
}

/// A multiplication and an addition each for the margin and for the gradient of every weight.
double LinearModel::flops_per_example() const { return 4.0 * row_values_ * static_cast<double>(outputs()); }

Index LinearModel::workspace_bytes(Index batch) const {
  const Index of_batch = batch * ((settings_.averaged ? 2 : 1) * outputs() + 1) * static_cast<Index>(sizeof(float));
  return of_batch + kept_bytes_;
}

// Linear models whose features are divided among threads and ranks.

namespace {

constexpr Index kFeaturesOfLine = 16;  ///< whose weights share a cache line
constexpr Index kSample = 1 << 15;     ///< values

const SparseRows* rows_of(const data::Batch& batch) {
  return batch.set == nullptr ? nullptr : &std::get<data::LabelledRows>(*batch.set).rows;
}

}  // namespace

std::vector<Index> LinearModel::divide_features(const data::Batch& batch, int parts) const {
  const SparseRows* const rows = rows_of(batch);
  std::vector<Index> sample;
  const Index all = rows != nullptr ? std::ssize(rows->columns) : features_, taken = std::min(all, kSample);
  for (Index i = 0; i < taken; ++i) {
    const Index at = all * i / taken;
    sample.push_back(rows != nullptr ? rows->columns[static_cast<std::size_t>(at)] : at);
  }
  std::sort(sample.begin(), sample.end());
  std::vector<Index> bounds{0};
  for (int part = 1; part < parts; ++part) {
    const Index bound = taken == 0 ? 0 : sample[static_cast<std::size_t>(taken * part / parts)];
    const Index whole_lines = (bound + kFeaturesOfLine / 2) / kFeaturesOfLine * kFeaturesOfLine;
    bounds.push_back(std::clamp(whole_lines, bounds.back(), features_));
  }
  bounds.push_back(features_);
  return bounds;
}

std::vector<std::uint64_t> LinearModel::first_values(const data::Batch& batch, Index feature) const {
  const SparseRows* const rows = rows_of(batch);
  if (rows == nullptr) return {};
  if (feature == 0) return {rows->offsets.begin(), rows->offsets.end() - 1};
  if (feature == features_) return {rows->offsets.begin() + 1, rows->offsets.end()};
  std::vector<std::uint64_t> first(static_cast<std::size_t>(rows->rows()));
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto begin = rows->columns.begin() + static_cast<std::ptrdiff_t>(rows->offsets[i]);
    const auto end = rows->columns.begin() + static_cast<std::ptrdiff_t>(rows->offsets[i + 1]);
    first[i] = rows->offsets[i] +
               static_cast<std::uint64_t>(std::lower_bound(begin, end, static_cast<std::uint32_t>(feature)) - begin);
  }
  return first;
}

kernels::LinearRows LinearModel::kernel_rows(const ExampleSlice& part) const {
  if (part.rows != nullptr) return {.sparse = part.rows, .first = part.first, .last = part.first + part.count};
  return {.last = part.count, .values = part.values, .features = features_};
}

void LinearModel::part_margins(const data::Batch& batch, data::ExampleRange range, const FeatureShare& share,
                               MutableView parameters, Scratch& scratch, MutableView margins) const {
  kernels::LinearWeights weights = margin_weights(weights_, parameters);
  if (!share.adds_bias) weights.bias = nullptr;
  const ExampleSlice part = part_of(batch, range, static_cast<LinearScratch&>(scratch).targets);
  kernels_->part_margins(kernel_rows(part), share.part, weights, margins);
}

void LinearModel::step_on_part(const data::Batch& batch, data::ExampleRange range, const FeatureShare& share,
                               const InPlaceStep& step, View margins, Scratch& scratch, kernels::LossSums* sums) const {
  const ExampleSlice part = part_of(batch, range, static_cast<LinearScratch&>(scratch).targets);
  const auto first = static_cast<std::size_t>(part.rows != nullptr ? part.first : 0);
  const auto count = static_cast<std::size_t>(part.count);
  const auto of_these = [&](View values) { return values.empty() ? View{} : values.subspan(first, count); };
  std::array<float, kernels::kMostMiniBatch> memory;
  const MutableView moves = MutableView(memory).first(count);
  const kernels::LinearStep with = linear_step(part, step, step.examples_before);
  kernels::InPlaceSums added;
  kernels_->moves(margin_loss(), of_these(part.targets), of_these(part.weights), with.rate, margins, moves,
                  sums != nullptr ? &added : nullptr);
  if (sums != nullptr) add(added, *sums);
  kernels::LinearWeights weights = margin_weights(weights_, step.parameters);
  weights.weight_sums = pointer_at(sums_.weights, step.parameters);
  weights.bias_sum = pointer_at(sums_.bias, step.parameters);
  if (!share.keeps_rest) weights.bias = weights.bias_sum = nullptr;
  kernels_->part_steps(kernel_rows(part), share.part, with, weights, moves);
  if (share.keeps_rest) note_updates(step.parameters, step.examples_before + part.count);
}

}  // namespace unisono::models
