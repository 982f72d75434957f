#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "importance.hpp"
#include "plot/bars.hpp"
#include "plot/parallel.hpp"
#include "plot/xy.hpp"
#include "search_sections.hpp"
#include "texts.hpp"
#include "unisono/base/text.hpp"

namespace unisono::report {
namespace {

constexpr std::size_t kMostDrawn = 1000, kMostAxes = 12, kMostSlices = 24;

/// The rows of a table from the worst to the best.
std::vector<std::size_t> ordered(const SearchHistory& search, const SearchTable& table) {
  std::vector<std::size_t> rows(table.trials.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(),
                   [&](auto a, auto b) { return search.is_better(table.values[b], table.values[a]); });
  // Of equal ones the first is the best, as for the search.
  for (std::size_t first = 0, end = 0; first < rows.size(); first = end) {
    while (end < rows.size() && table.values[rows[end]] == table.values[rows[first]]) ++end;
    std::reverse(rows.begin() + static_cast<std::ptrdiff_t>(first), rows.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return rows;
}

std::string text_of(const SearchColumn& column, double value) {
  if (std::isnan(value)) return "–";
  return column.axis.choices.empty() ? number_text(value) : column.axis.choices[static_cast<std::size_t>(value)];
}

/// Only so many axes can be told apart: the most important ones.
std::vector<std::size_t> shown_columns(const SearchTable& table, const std::vector<double>& importance,
                                       std::size_t most) {
  std::vector<std::size_t> columns(table.columns.size());
  std::iota(columns.begin(), columns.end(), 0);
  if (columns.size() <= most || importance.empty()) {
    columns.resize(std::min(columns.size(), most));
    return columns;
  }
  std::stable_sort(columns.begin(), columns.end(), [&](auto a, auto b) { return importance[a] > importance[b]; });
  columns.resize(most);
  std::sort(columns.begin(), columns.end());
  return columns;
}

Drawing parallel_drawing(const SearchHistory& search, const SearchTable& table, const std::vector<std::size_t>& rows,
                         const std::vector<std::size_t>& columns) {
  plot::ParallelPlot plot;
  plot.caption = {.title = "Trials: the better, the more orange",
                  .description =
                      "A line for each trial, which crosses the axis of each setting at its value, and the "
                      "last axis at its metric."};
  for (const std::size_t column : columns) plot.axes.push_back(table.columns[column].axis);
  plot.axes.push_back(metric_axis(search, table.values));
  plot.width = std::max(800.0, 140 * static_cast<double>(plot.axes.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t row = rows[i];
    plot::ParallelLine line;
    line.title = fmt::format("trial {}: {}", table.trials[row], number_text(table.values[row]));
    for (const std::size_t column : columns) {
      const SearchColumn& one = table.columns[column];
      line.values.push_back(one.values[row]);
      if (!std::isnan(one.values[row])) line.title += fmt::format(", {} {}", one.name, text_of(one, one.values[row]));
    }
    line.values.push_back(table.values[row]);
    line.merit = rows.size() > 1 ? static_cast<double>(i) / static_cast<double>(rows.size() - 1) : 1;
    plot.lines.push_back(std::move(line));
  }
  return drawing_of(plot);
}

/// The metric against the values of a key.
Drawing slice_drawing(const SearchHistory& search, const SearchTable& table, const SearchColumn& column,
                      const std::vector<std::size_t>& rows) {
  plot::XyPlot plot;
  plot.caption = {.title = column.name,
                  .description = fmt::format("{} of each trial against its value.", words_of(search.metric))};
  plot.x = column.axis;
  plot.x.label = "";
  plot.y = metric_axis(search, table.values);
  plot.width = 380;
  plot.height = 190;
  std::vector<plot::Series> series = {{.name = "trials", .mark = plot::Mark::points},
                                      {.name = "best", .mark = plot::Mark::points}};
  for (const std::size_t row : rows) {
    plot::Series& one = series[row == rows.back() ? 1 : 0];
    one.x.push_back(column.values[row]);
    one.y.push_back(table.values[row]);
    one.titles.push_back(fmt::format("trial {}: {} at {}", table.trials[row], number_text(table.values[row]),
                                     text_of(column, column.values[row])));
  }
  plot.series = std::move(series);
  return drawing_of(plot);
}

/// Of all settings, and of the epochs where these differ.
struct Importances {
  std::vector<std::string> names;
  Importance found;
};
Importances importances_of(const SearchTable& table) {
  std::vector<std::vector<double>> values;
  Importances importances;
  for (const SearchColumn& column : table.columns) {
    values.push_back(column.values);
    importances.names.push_back(column.name);
  }
  if (std::adjacent_find(table.epochs.begin(), table.epochs.end(), std::not_equal_to<>()) != table.epochs.end()) {
    values.push_back(table.epochs);
    importances.names.emplace_back("epochs trained");
  }
  importances.found = importance_of(values, table.values);
  return importances;
}

void add_importance(Section& section, const Importances& importances) {
  const std::vector<double>& found = importances.found.settings;
  std::vector<std::size_t> order(found.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return found[a] > found[b]; });
  plot::BarPlot plot;
  plot.caption = {.title = "Importance of each setting",
                  .description = "By how much the prediction of a trial's rank gets worse without the setting."};
  plot.value.label = "growth of the error, in parts of the variance";
  plot.series = {{.name = "", .values = {}}};
  for (const std::size_t i : order) {
    plot.rows.push_back(importances.names[i]);
    plot.series.front().values.push_back(std::max(0.0, found[i]));
  }
  section.blocks.emplace_back(drawing_of(plot));
  const double explained = std::max(0.0, importances.found.explained);
  section.blocks.emplace_back(Paragraph{fmt::format(
      "Importance by permutation: a random forest predicts the rank of a trial from its settings; then the "
      "values of one setting are exchanged between trials, and the error grows. The forest explains {:.0f} % "
      "of the variance of trials that it has not seen{}.",
      100 * explained, explained < 0.3 ? ": too little to rely on the bars" : "")});
}

}  // namespace

Section section_of_space(const SearchHistory& search) {
  Section section{.title = "What the settings do"};
  const SearchTable table = table_of(search);
  if (table.trials.empty() || table.columns.empty()) return section;
  std::vector<std::size_t> rows = ordered(search, table);
  if (rows.size() > kMostDrawn) {
    section.blocks.emplace_back(Paragraph{fmt::format("The best {} trials are drawn.", grouped(kMostDrawn))});
    rows.erase(rows.begin(), rows.end() - kMostDrawn);
  }
  Importances importances;
  if (table.trials.size() >= kFewestTrials) importances = importances_of(table);
  const std::vector<double>& found = importances.found.settings;
  section.blocks.emplace_back(parallel_drawing(search, table, rows, shown_columns(table, found, kMostAxes)));
  if (!found.empty()) add_importance(section, importances);
  for (const std::size_t column : shown_columns(table, found, kMostSlices)) {
    section.blocks.emplace_back(slice_drawing(search, table, table.columns[column], rows));
  }
  return section;
}

}  // namespace unisono::report
