#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "importance.hpp"
#include "page.hpp"
#include "plot/plots.hpp"
#include "sections.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::report {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostTrialTitles = 1000, kMostBlocks = 4000;

/// The best value after each step that has ended.
Drawing best_drawing(const SearchHistory& search) {
  plot::Series values{.name = "trials", .mark = plot::Mark::points}, best{.name = "best so far"};
  double reached = kGap;
  for (std::size_t i = 0; i < search.steps.size(); ++i) {
    const StepEnd& step = search.steps[i];
    values.x.push_back(static_cast<double>(i + 1));
    values.y.push_back(step.value);
    values.titles.push_back(
        fmt::format("trial {}, {}: {}", step.trial, count_of(step.epochs, "epoch"), number_text(step.value)));
    const bool is_better = std::isnan(reached) || search.is_better(step.value, reached);
    if (!std::isnan(step.value) && is_better) {
      best.x.push_back(values.x.back());
      best.y.push_back(reached);  // a step: NaN, or the best one before
      reached = step.value;
    }
    best.x.push_back(values.x.back());
    best.y.push_back(reached);
  }
  if (values.x.size() > kMostTrialTitles) values.titles.clear();  // then points may be thinned
  best.colour = 1;
  values.colour = 0;
  plot::XyPlot plot;
  plot.caption = {.title = "Best so far",
                  .description = fmt::format("The best {} is {}.", words_of(search.metric), number_text(reached))};
  plot.x.label = search.is_in_steps() ? "steps of trials that have ended" : "trials that have ended";
  plot.y = metric_axis(search, values.y);
  plot.series = {std::move(values), std::move(best)};
  plot.width = 545;
  return drawing_of(plot);
}

std::map<std::int64_t, std::vector<const StepEnd*>> steps_by_trial(const SearchHistory& search) {
  std::map<std::int64_t, std::vector<const StepEnd*>> steps;
  for (const StepEnd& step : search.steps) steps[step.trial].push_back(&step);
  return steps;
}

/// How each trial went from rung to rung.
Drawing rungs_drawing(const SearchHistory& search) {
  plot::Series trials{.name = "trials", .mark = plot::Mark::line_and_points};
  plot::Series best{.name = "best trial", .mark = plot::Mark::line_and_points};
  const auto winner = search.plan->best();
  for (const auto& [number, steps] : steps_by_trial(search)) {
    plot::Series& series = winner == number ? best : trials;
    for (const StepEnd* step : steps) {
      series.x.push_back(static_cast<double>(step->epochs));
      series.y.push_back(step->value);
      series.titles.push_back(
          fmt::format("trial {}, {}: {}", number, count_of(step->epochs, "epoch"), number_text(step->value)));
    }
    series.x.push_back(kGap);  // the next trial's line begins anew
    series.y.push_back(kGap);
    series.titles.emplace_back();
  }
  plot::XyPlot plot;
  plot.caption = {.title = "Trials from rung to rung",
                  .description = "A line for each trial: its metric after so many epochs."};
  plot.x.label = "epochs";
  if (search.settings().method != search::SearchKind::population) plot.x.spacing = plot::Spacing::logarithmic;
  plot.y = metric_axis(search, trials.y);
  plot.series = {std::move(trials), std::move(best)};
  plot.width = 545;
  return drawing_of(plot);
}

/// Trials of one rung; those of Hyperband's brackets are told apart by where they began.
struct RungFigures {
  std::int64_t trials = 0, failed = 0, went_on = 0, copied = 0;
  std::vector<double> values = {};
};

Table rungs_table(const SearchHistory& search) {
  std::map<std::pair<std::int64_t, std::int64_t>, RungFigures> rungs;
  for (const auto& [number, steps] : steps_by_trial(search)) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      RungFigures& rung = rungs[{steps.front()->epochs, steps[i]->epochs}];
      ++rung.trials;
      rung.went_on += i + 1 < steps.size() ? 1 : 0;
      rung.copied += steps[i]->copied ? 1 : 0;
      if (std::isnan(steps[i]->value)) {
        ++rung.failed;
      } else {
        rung.values.push_back(steps[i]->value);
      }
    }
  }
  const bool is_population = search.settings().method == search::SearchKind::population;
  const bool has_brackets = search.settings().method == search::SearchKind::hyperband;
  Table table{.caption = "Rungs", .head = {"epochs"}};
  if (has_brackets) table.head = {"bracket, from epochs", "epochs"};
  const std::string metric = words_of(search.metric);
  table.head.insert(table.head.end(), {"trials", "failed", is_population ? "began with others' weights" : "went on",
                                       "best " + metric, "median"});
  for (auto& [which, rung] : rungs) {
    std::sort(rung.values.begin(), rung.values.end(), [&](double a, double b) { return search.is_better(a, b); });
    std::vector<std::string> row = {grouped(which.second)};
    if (has_brackets) row.insert(row.begin(), grouped(which.first));
    const bool any = !rung.values.empty();
    row.insert(
        row.end(),
        {grouped(rung.trials), grouped(rung.failed), grouped(is_population ? rung.copied : rung.went_on),
         any ? number_text(rung.values.front()) : "", any ? number_text(rung.values[rung.values.size() / 2]) : ""});
    table.rows.push_back(std::move(row));
  }
  return table;
}

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
  // Trials of other lengths are not compared without a word.
  std::map<double, std::size_t> series_of;
  for (const std::size_t row : rows) series_of.try_emplace(table.epochs[row], 0);
  std::vector<plot::Series> series;
  for (auto& [epochs, number] : series_of) {
    number = series.size();
    series.push_back({.name = series_of.size() > 1 ? count_of(std::llround(epochs), "epoch") : "trials",
                      .mark = plot::Mark::points});
  }
  series.push_back({.name = "best", .mark = plot::Mark::points});
  for (const std::size_t row : rows) {
    plot::Series& one = row == rows.back() ? series.back() : series[series_of.at(table.epochs[row])];
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

plot::Axis metric_axis(const SearchHistory& search, const std::vector<double>& values) {
  plot::Axis axis = axis_for({{.y = values}});
  axis.label = words_of(search.metric);
  return axis;
}

Section section_of_course(const SearchHistory& search) {
  Section section{.title = "Course"};
  if (search.steps.empty()) return section;
  section.blocks.emplace_back(best_drawing(search));
  if (!search.is_in_steps()) return section;
  section.blocks.emplace_back(rungs_drawing(search));
  section.blocks.emplace_back(rungs_table(search));
  return section;
}

Section section_of_timeline(const TrialsHistory& job) {
  Section section{.title = "Timeline"};
  if (job.trainings.empty()) return section;
  if (job.trainings.size() > kMostBlocks) {
    section.blocks.emplace_back(Paragraph{
        fmt::format("The first {} of {} trainings.", grouped(kMostBlocks), grouped(std::ssize(job.trainings)))});
  }
  const TrialsHistory::TimelineRows rows = job.rows();
  const bool is_search = job.kind == "search";
  plot::Timeline timeline;
  timeline.caption = {.title = fmt::format("Which {} ran when", is_search ? "trials" : "folds"),
                      .description = "A row for each training that ran at the same time as others."};
  timeline.time.label = "seconds";
  for (std::size_t row = 0; row < rows.count; ++row) timeline.rows.push_back(fmt::format("{}", row + 1));
  for (std::size_t i = 0; i < std::min(job.trainings.size(), kMostBlocks); ++i) {
    const TrainingSpan& span = job.trainings[i];
    const std::string kind(span.result       ? name_of(span.result->status, records::kTrialStatuses)
                           : span.is_running ? "running"
                                             : "stopped");
    auto found = std::find(timeline.kinds.begin(), timeline.kinds.end(), kind);
    if (found == timeline.kinds.end()) found = timeline.kinds.insert(found, kind);
    const std::int64_t number = is_search ? span.training.trial : std::max<std::int64_t>(0, span.training.fold);
    const std::string what = is_search             ? span.training.text()
                             : span.training.refit ? "all examples"
                                                   : fmt::format("fold {}", span.training.fold);
    timeline.blocks.push_back({.row = rows.of_training[i],
                               .start = span.start,
                               .end = span.end,
                               .colour = static_cast<std::size_t>(found - timeline.kinds.begin()),
                               .text = span.training.refit ? "all" : fmt::format("{}", number),
                               .title = fmt::format("{}: {}, {}", what, kind, duration_text(span.end - span.start))});
  }
  section.blocks.emplace_back(drawing_of(timeline));
  return section;
}

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
