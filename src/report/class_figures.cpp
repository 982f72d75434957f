#include "class_figures.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plot/matrix.hpp"
#include "unisono/base/text.hpp"

namespace unisono::report {
namespace {

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

std::string class_name(const std::vector<std::string>& names, Index label) {
  const auto i = static_cast<std::size_t>(label);
  return i < names.size() ? names[i] : fmt::format("{}", label);
}

void add_matrix(Section& section, const records::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  if (matrix.classes() <= kMostMatrixClasses) section.blocks.emplace_back(drawing_of(matrix_plot(matrix, names)));
  section.blocks.emplace_back(class_table(matrix, names));
}

}  // namespace unisono::report
