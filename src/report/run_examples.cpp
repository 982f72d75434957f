#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "page.hpp"
#include "plot/plots.hpp"
#include "run_sections.hpp"
#include "texts.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"

namespace unisono::report {
namespace {

constexpr std::size_t kMostOutputs = 8;

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
Judged judged(const records::WorstExample& worst, const records::ModelExamples& examples) {
  if (!examples.reading) return {values_text(worst.answer), values_text(worst.outputs)};
  return {class_name(examples.classes, static_cast<Index>(worst.answer.front())),
          class_name(examples.classes, examples.reading->class_of(worst.outputs))};
}

Pictures pictures_of(const records::ModelExamples& examples) {
  Pictures pictures;
  for (const records::WorstExample& one : examples.worst) {
    const auto [truth, predicted] = judged(one, examples);
    pictures.pictures.push_back(
        {.png = picture_of(one.features, examples.features),
         .meaning = fmt::format("example {}: {}, predicted: {}", one.number, truth, predicted),
         .lines = {fmt::format("{}, predicted {}", truth, predicted),
                   fmt::format("example {}, {}", grouped(one.number), number_text(one.error))}});
  }
  return pictures;
}

Table table_of(const records::ModelExamples& examples) {
  Table table{.caption = "Worst examples", .head = {"example", "answer", "predicted", examples.error}, .rows = {}};
  for (const records::WorstExample& one : examples.worst) {
    const auto [truth, predicted] = judged(one, examples);
    table.rows.push_back({grouped(one.number), truth, predicted, number_text(one.error)});
  }
  return table;
}

void add_worst(Section& section, const records::ModelExamples& examples) {
  if (examples.worst.empty()) return;
  if (!examples.are_images) {
    section.blocks.emplace_back(table_of(examples));
    return;
  }
  section.blocks.emplace_back(Paragraph{"Worst examples, by " + examples.error + ":"});
  section.blocks.emplace_back(pictures_of(examples));
}

Table table_of(const records::Neighbours& neighbours) {
  Table rows{.caption = "Nearest neighbours of the first " + neighbours.table,
             .head = {"name", "neighbours, with their cosines"},
             .rows = {}};
  for (const records::Neighbours::Row& row : neighbours.rows) {
    std::string list;
    for (const auto& [name, cosine] : row.neighbours) {
      list += fmt::format("{}{} {:.2f}", list.empty() ? "" : ", ", name, cosine);
    }
    rows.rows.push_back({row.name, list});
  }
  return rows;
}

Table table_of(const records::SplitEvaluation& evaluation) {
  Table table{.caption = "Evaluation", .head = {}, .rows = {}};
  table.rows.push_back({"checkpoint", evaluation.checkpoint});
  table.rows.push_back({"step", grouped(evaluation.step)});
  table.rows.push_back({"data", evaluation.data});
  table.rows.push_back({"examples", grouped(evaluation.examples)});
  for (const auto& metric : evaluation.metrics) {
    table.rows.push_back({words_of(metric.name), number_text(metric.value)});
  }
  return table;
}

constexpr Index kMostMatrixClasses = 60;

plot::MatrixPlot matrix_plot(const records::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  plot::MatrixPlot plot;
  plot.caption = {.title = "Confusion matrix",
                  .description =
                      "How many examples of each class were taken for which class; shaded by their share of "
                      "the class."};
  plot.row_label = "label";
  plot.column_label = "predicted";
  for (Index label = 0; label < matrix.classes(); ++label) {
    plot.rows.push_back(class_name(names, label));
    for (Index predicted = 0; predicted < matrix.classes(); ++predicted) {
      const auto count = static_cast<double>(matrix.cell(label, predicted));
      plot.values.push_back(count);
      plot.shades.push_back(count / static_cast<double>(std::max<std::int64_t>(1, matrix.support(label))));
    }
  }
  plot.columns = plot.rows;
  return plot;
}

Table class_table(const records::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  Table table{.caption = "Classes", .head = {"class", "examples", "precision", "recall", "F1"}, .rows = {}};
  for (Index label = 0; label < matrix.classes(); ++label) {
    const records::ClassFigures figures = matrix.of(label);
    table.rows.push_back({class_name(names, label), grouped(figures.support), fmt::format("{:.3f}", figures.precision),
                          fmt::format("{:.3f}", figures.recall), fmt::format("{:.3f}", figures.f1)});
  }
  return table;
}

}  // namespace

Section section_of_examples(const RunHistory& run, const ReportOptions& options, Log& log) {
  Section section{.title = "Examples"};
  if (options.examples == 0 || !options.apply_model) return section;
  try {
    const records::ModelExamples examples = options.apply_model(run.record.folder, log);
    if (examples.matrix) add_matrix(section, *examples.matrix, examples.classes);
    add_worst(section, examples);
    for (const records::Neighbours& neighbours : examples.neighbours) section.blocks.emplace_back(table_of(neighbours));
    if (examples.evaluation) section.blocks.emplace_back(table_of(*examples.evaluation));
  } catch (const Error& error) {
    log.warning(fmt::format("{}: the report has no examples: {}", run.record.folder, error.what()));
    section.blocks.emplace_back(Paragraph{fmt::format("The model could not be applied: {}", error.what())});
  }
  return section;
}

std::string class_name(const std::vector<std::string>& names, Index label) {
  const auto i = static_cast<std::size_t>(label);
  return i < names.size() ? names[i] : fmt::format("{}", label);
}

void add_matrix(Section& section, const records::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  if (matrix.classes() <= kMostMatrixClasses) section.blocks.emplace_back(drawing_of(matrix_plot(matrix, names)));
  section.blocks.emplace_back(class_table(matrix, names));
}

}  // namespace unisono::report
