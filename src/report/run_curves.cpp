#include "run_sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "texts.hpp"
#include "unisono/base/text.hpp"

namespace unisono::report {
namespace {

constexpr double kFarApart = 50;  // largest value / smallest value of a logarithmic axis

/// What curves do: "train: from 2.3 to 0.32; …"
std::string course_of(const std::vector<plot::Series>& series) {
  std::string text;
  for (const plot::Series& one : series) {
    if (one.y.empty()) continue;
    text += fmt::format("{}{}from {} to {}", text.empty() ? "" : "; ", one.name.empty() ? "" : one.name + ": ",
                        number_text(one.y.front()), number_text(one.y.back()));
  }
  return text;
}

/// A plot of the curves that there are; none where there are none.
void add_plot(Section& section, const RunHistory& run, const std::string& title,
              const std::vector<std::pair<std::string, std::string>>& curves_and_names) {
  std::vector<plot::Series> series;
  for (const auto& [curve, name] : curves_and_names) {
    if (!run.curve(curve).empty()) series.push_back(series_of(run, curve, name));
  }
  if (series.empty()) return;
  section.blocks.push_back(curves_drawing(title, epoch_label(run), std::move(series)));
}

/// The lines of evaluations have few points, which are seen.
plot::Mark mark_of(const std::string& curve, std::size_t points) {
  return curve.starts_with("train ") || points > 60 ? plot::Mark::line : plot::Mark::line_and_points;
}

Table table_of_evaluations(const RunHistory& run) {
  Table table{.caption = "Evaluations", .head = {"step", "epoch"}, .rows = {}};
  std::vector<const Curve*> curves;
  for (const std::string split : {"validation", "test"}) {
    for (const std::string& metric : run.metrics()) {
      const Curve& curve = run.curve(split + " " + metric);
      if (curve.empty()) continue;
      curves.push_back(&curve);
      table.head.push_back(split + " " + words_of(metric));
    }
  }
  std::map<double, std::vector<std::string>> rows;
  for (std::size_t c = 0; c < curves.size(); ++c) {
    for (std::size_t i = 0; i < curves[c]->steps.size(); ++i) {
      auto& row = rows[curves[c]->steps[i]];
      row.resize(curves.size());
      row[c] = number_text(curves[c]->values[i]);
    }
  }
  for (auto& [step, cells] : rows) {
    cells.insert(cells.begin(), {number_text(step), number_text(run.epochs_of({step}).front())});
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

plot::Axis axis_for(const std::vector<plot::Series>& series) {
  plot::Span span;
  for (const plot::Series& one : series) span.add(one.y);
  const auto range = span.range();
  const bool logarithmic = range && range->minimum > 0 && range->maximum > kFarApart * range->minimum;
  plot::Axis axis;
  if (logarithmic) axis.spacing = plot::Spacing::logarithmic;
  return axis;
}

plot::Series series_of(const RunHistory& run, const std::string& curve, const std::string& name) {
  const Curve& found = run.curve(curve);
  plot::Series series{.name = name, .x = run.epochs_of(found.steps), .y = found.values};
  series.mark = mark_of(curve, found.steps.size());
  return series;
}

std::string epoch_label(const RunHistory& run) {
  if (run.steps_per_epoch <= 0) return "step";
  return fmt::format("epoch, of {}", count_of(std::llround(run.steps_per_epoch), "step"));
}

Drawing curves_drawing(const std::string& title, const std::string& x_label, std::vector<plot::Series> series) {
  plot::XyPlot plot;
  plot.caption = {.title = title, .description = course_of(series)};
  plot.x.label = x_label;
  plot.x.minimum = 0;
  plot.y = axis_for(series);
  plot.series = std::move(series);
  plot.width = 545;
  return drawing_of(plot);
}

Section section_of_metrics(const RunHistory& run) {
  Section section{.title = "Losses and metrics"};
  for (const std::string& metric : run.metrics()) {
    add_plot(section, run, words_of(metric),
             {{"train " + metric, "train"}, {"validation " + metric, "validation"}, {"test " + metric, "test"}});
  }
  if (Table table = table_of_evaluations(run); !table.rows.empty()) section.blocks.emplace_back(std::move(table));
  return section;
}

Section section_of_steps(const RunHistory& run) {
  Section section{.title = "Steps"};
  add_plot(section, run, "learning rate", {{"train learning_rate", ""}});
  add_plot(section, run, "norm of the gradient", {{"train gradient_norm", ""}});
  add_plot(section, run, "norm of the parameters", {{"train parameter_norm", ""}});
  add_plot(section, run, "objective", {{"train objective", ""}});
  add_plot(section, run, "largest element of the gradient", {{"train gradient_magnitude", ""}});
  add_plot(section, run, "length of the step", {{"train step_length", ""}});
  add_plot(section, run, "passes over the set", {{"train passes", ""}});
  return section;
}

}  // namespace unisono::report
