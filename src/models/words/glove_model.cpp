#include "words/glove_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unisono/base/errors.hpp"

namespace unisono::models {
namespace {

constexpr double kLeastRate = 1e-18;  // whose 1 / rate² a float holds

}  // namespace

GloveModel::GloveModel(const GloveSettings& settings, const ModelInputs& inputs, const ModelContext& context)
    : InPlaceModel("glove"),
      settings_(settings),
      words_(inputs.rows),
      dimension_(settings.dimension),
      width_(round_up_to_line(settings.dimension + 1)),
      learning_rate_(context.learning_rate) {
  if (inputs.kind != data::SetKind::cooccurrences) {
    throw ConfigError(
        fmt::format("model.kind = \"glove\" needs co-occurrences, but the data set holds {}; 'unisono data "
                    "cooccurrences' counts those of a text",
                    data::name_of(inputs.kind)));
  }
  require_rule(context.update_rule, {"adagrad"}, kind_);
  if (learning_rate_ < kLeastRate) {
    throw ConfigError(
        fmt::format("optimizer.learning_rate = {:g}: model.kind = \"glove\" needs at least {:g}, because its sums of "
                    "squares start at 1 / rate²",
                    learning_rate_, kLeastRate));
  }
  word_rows_ = declare("words");
  context_rows_ = declare("contexts");
}

/// A row: vector, bias, filled up; their Adagrad sums in the same order.
Index GloveModel::declare(const std::string& name) {
  return layout_.add_rows({{row_block(name + ".weight", words_, dimension_, Role::weight), 0},
                           {row_block(name + ".bias", words_, 0, Role::bias), dimension_},
                           {row_block(name + ".weight_squares", words_, dimension_, Role::state), width_},
                           {row_block(name + ".bias_squares", words_, 0, Role::state), width_ + dimension_}},
                          2 * width_);
}

/// Vectors and biases are uniform in ±½/D, as in the published program.
void GloveModel::initialise(std::uint64_t seed, ModelState state) const {
  std::fill(state.parameters.begin(), state.parameters.end(), 0.0F);
  std::uint32_t number = 0;
  const auto sum = static_cast<float>(1 / (learning_rate_ * learning_rate_));
  for (const Index offset : {word_rows_, context_rows_}) {
    const kernels::RowMatrix rows = rows_at(offset, state.parameters).weights;
    draw_rows(seed, number++, 0.5F / static_cast<float>(dimension_), {.count = words_}, dimension_ + 1, rows);
    for (Index column = 0; column <= dimension_; ++column) fill_column(sum, words_, width_ + column, rows);
  }
}

std::unique_ptr<Scratch> GloveModel::make_scratch() const { return std::make_unique<EntryScratch>(); }

std::vector<RowSpace> GloveModel::row_spaces() const {
  return {{"words", word_rows_, 2 * width_, words_}, {"contexts", context_rows_, 2 * width_, words_}};
}

std::vector<VectorTable> GloveModel::vectors(View) const {
  return {{.name = "words",
           .rows = words_,
           .width = dimension_,
           .parts = {{word_rows_, 2 * width_}, {context_rows_, 2 * width_}}}};
}

void GloveModel::mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch&, TouchedRows& touched) const {
  mark_entries(entries_of(batch, range), touched);
}

void GloveModel::update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step,
                                 Scratch& scratch, kernels::LossSums& sums) const {
  const kernels::GloveStep with{.rate = static_cast<float>(step.rate / learning_rate_),
                                .x_max = static_cast<float>(settings_.x_max),
                                .alpha = static_cast<float>(settings_.alpha)};
  const kernels::GloveRows words = rows_at(word_rows_, step.parameters),
                           contexts = rows_at(context_rows_, step.parameters);
  update_entries(entries_of(batch, range), step, scratch, sums,
                 [&](data::SparseEntries entries) { return kernels_->glove(entries, with, words, contexts); });
}

void GloveModel::evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) {
  const kernels::GloveRows words = rows_at(word_rows_, state.parameters),
                           contexts = rows_at(context_rows_, state.parameters);
  for (const data::ExampleRange& range : batch.ranges) {
    for (const SparseEntry& entry : entries_of(batch, range)) {
      const float *const w = words.weights.row(entry.row), *const v = contexts.weights.row(entry.column);
      const auto x = static_cast<double>(entry.value);
      double error = static_cast<double>(w[dimension_]) + static_cast<double>(v[dimension_]) - std::log(x);
      for (Index k = 0; k < dimension_; ++k) error += static_cast<double>(w[k]) * static_cast<double>(v[k]);
      const double weight = std::min(1.0, std::pow(x / settings_.x_max, settings_.alpha));
      sums.loss += weight * error * error / 2;
      ++sums.examples;
    }
  }
}

std::vector<LayerSummary> GloveModel::summary(Index) const {
  const auto row = [&](std::string name) {
    return LayerSummary{.name = std::move(name),
                        .kind = "vectors",
                        .output = std::to_string(dimension_),
                        .parameters = words_ * (dimension_ + 1),
                        .flops_per_example = flops_per_example() / 2};
  };
  return {row("words"), row("contexts")};
}

/// The product 2 D; for either row gradient, step and sum 6 D, roots not counted.
double GloveModel::flops_per_example() const { return 14.0 * static_cast<double>(dimension_); }

}  // namespace unisono::models
