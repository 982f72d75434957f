#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apply/evaluator.hpp"
#include "apply/figures/answers.hpp"
#include "apply/figures/classification.hpp"
#include "apply/vectors/nearest.hpp"
#include "apply/vectors/tables.hpp"
#include "report/class_figures.hpp"
#include "report/encode.hpp"
#include "report/run_sections.hpp"
#include "report/texts.hpp"
#include "report/worst.hpp"
#include "unisono/base/text.hpp"

namespace unisono::experiment {
namespace {

constexpr Index kNeighboursOf = 16;
constexpr std::size_t kNeighbours = 6, kMostOutputs = 8;

void add_classes(Section& section, TrainedModel& model, const std::vector<std::string>& names) {
  const auto reading = class_reading(model);
  if (!reading) return;
  const auto figures = classify_split(model, model.parts->grid.data(), *reading);
  if (figures && figures->matrix.has_cells()) add_matrix(section, figures->matrix, names);
}

/// Channels as a picture has them: one, or three, interleaved.
std::string picture_of(const std::vector<float>& features, const data::FeatureShape& shape) {
  const auto [least, largest] = std::minmax_element(features.begin(), features.end());
  // Features that are not from 0 to 1 have been normalised, and are stretched.
  const bool plain = *least >= 0 && *largest <= 1;
  const float low = plain ? 0 : *least, range = plain ? 1 : std::max(1e-12F, *largest - *least);
  const auto pixels = static_cast<std::size_t>(shape.height * shape.width);
  const std::size_t channels = shape.channels == 3 ? 3 : 1;
  std::vector<std::uint8_t> bytes(pixels * channels);
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) {
      bytes[p * channels + c] = static_cast<std::uint8_t>(
          std::lround(255 * std::clamp((features[c * pixels + p] - low) / range, 0.0F, 1.0F)));
    }
  }
  return png_of(static_cast<int>(shape.width), static_cast<int>(shape.height), static_cast<int>(channels), bytes);
}

std::string values_text(const std::vector<float>& values) {
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMostOutputs); ++i) {
    text += (i == 0 ? "" : ", ") + number_text(values[i]);
  }
  return values.size() > kMostOutputs ? text + ", …" : text;
}

/// What the example is, and what the model takes it for.
struct Judged {
  std::string truth, predicted;
};
Judged judged(const WorstExample& worst, const TrainedModel& model, const std::vector<std::string>& names) {
  const auto reading = class_reading(model);
  if (!reading) return {values_text(worst.answer), values_text(worst.outputs)};
  return {class_name(names, static_cast<Index>(worst.answer.front())),
          class_name(names, reading->class_of(worst.outputs))};
}

Pictures pictures_of(const std::vector<WorstExample>& worst, const TrainedModel& model,
                     const std::vector<std::string>& names) {
  Pictures pictures;
  for (const WorstExample& one : worst) {
    const auto [truth, predicted] = judged(one, model, names);
    pictures.pictures.push_back(
        {.png = picture_of(one.features, (*model.data)->info().features),
         .meaning = fmt::format("example {}: {}, predicted: {}", one.number, truth, predicted),
         .lines = {fmt::format("{}, predicted {}", truth, predicted),
                   fmt::format("example {}, {}", grouped(one.number), number_text(one.error))}});
  }
  return pictures;
}

Table table_of(const std::vector<WorstExample>& worst, const TrainedModel& model,
               const std::vector<std::string>& names) {
  Table table{.caption = "Worst examples", .head = {"example", "answer", "predicted", error_name(model)}, .rows = {}};
  for (const WorstExample& one : worst) {
    const auto [truth, predicted] = judged(one, model, names);
    table.rows.push_back({grouped(one.number), truth, predicted, number_text(one.error)});
  }
  return table;
}

void add_worst(Section& section, TrainedModel& model, std::size_t count, const std::vector<std::string>& names) {
  if (answer_kind(model).width == 0) return;
  const std::vector<WorstExample> worst = worst_examples(model, count);
  if (worst.empty()) return;
  const data::DatasetInfo& info = (*model.data)->info();
  const bool images = info.kind == data::SetKind::table && info.features.height > 1 && info.features.width > 1;
  if (!images) {
    section.blocks.emplace_back(table_of(worst, model, names));
    return;
  }
  section.blocks.emplace_back(Paragraph{"Worst examples, by " + error_name(model) + ":"});
  section.blocks.emplace_back(pictures_of(worst, model, names));
}

void add_neighbours(Section& section, const TrainedModel& model) {
  for (const models::VectorTable& table : model.parts->model->vectors(model.parts->parameters.view())) {
    const data::NameTable names = names_of(model, table);
    std::vector<Index> asked;
    for (Index row = 0; row < std::min(kNeighboursOf, table.rows); ++row) asked.push_back(row);
    const auto found = nearest(table, model.parts->parameters.view(), asked, kNeighbours);
    Table rows{.caption = "Nearest neighbours of the first " + table.name,
               .head = {"name", "neighbours, with their cosines"},
               .rows = {}};
    for (std::size_t i = 0; i < found.size(); ++i) {
      std::string list;
      for (const Scored& one : found[i]) {
        list += fmt::format("{}{} {:.2f}", list.empty() ? "" : ", ", names.names[static_cast<std::size_t>(one.row)],
                            one.score);
      }
      rows.rows.push_back({names.names[i], list});
    }
    section.blocks.emplace_back(std::move(rows));
  }
}

void add_evaluation(Section& section, TrainedModel& model) {
  Table table{.caption = "Evaluation", .head = {}, .rows = {}};
  table.rows.push_back({"checkpoint", model.checkpoint.path});
  table.rows.push_back({"step", grouped(model.checkpoint.header.step)});
  table.rows.push_back({"data", model.data_text()});
  table.rows.push_back({"examples", grouped(examples_of((*model.data)->info(), model.split))});
  for (const auto& metric : evaluate_split(*model.parts, **model.data, model.split, model.config)) {
    table.rows.push_back({words_of(metric.name), number_text(metric.value)});
  }
  section.blocks.emplace_back(std::move(table));
}

}  // namespace

Section section_of_examples(const RunHistory& run, const ReportOptions& options, Log& log) {
  Section section{.title = "Examples"};
  if (options.examples == 0) return section;
  ApplyOptions apply;
  apply.model = run.record.folder;
  apply.data = options.data;
  apply.models = options.models;
  const auto alone = comm::make_self_communicator();
  try {
    TrainedModel model(*alone, apply, log);
    const std::vector<std::string> names = class_names_of(model, apply);
    add_classes(section, model, names);
    add_worst(section, model, static_cast<std::size_t>(options.examples), names);
    add_neighbours(section, model);
    const bool is_held_out = model.split != data::Split::train;  // training sets may take long
    if (is_held_out) add_evaluation(section, model);
  } catch (const Error& error) {
    log.warning(fmt::format("{}: the report has no examples: {}", run.record.folder, error.what()));
    section.blocks.emplace_back(Paragraph{fmt::format("The model could not be applied: {}", error.what())});
  }
  return section;
}

}  // namespace unisono::experiment
