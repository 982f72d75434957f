#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "plot/bars.hpp"
#include "run_curves.hpp"
#include "run_sections.hpp"
#include "run_times.hpp"
#include "texts.hpp"

namespace unisono::report {
namespace {

constexpr std::size_t kMostEpochs = 40;

Table time_table(const std::vector<double>& seconds) {
  Table table{
      .caption = "Seconds by part, mean over the ranks that train", .head = {"part", "seconds", "share"}, .rows = {}};
  double sum = 0;
  for (const double part : seconds) sum += part;
  for (std::size_t i = 0; i < kTimeParts.size(); ++i) {
    if (seconds[i] <= 0) continue;
    table.rows.push_back({words_of(kTimeParts[i]), number_text(seconds[i]), share_text(seconds[i], sum)});
  }
  table.rows.push_back({"total", number_text(sum), ""});
  return table;
}

/// The seconds of each epoch, from the reports that end in it. [epochs][parts]
std::map<double, std::vector<double>> seconds_by_epoch(const RunHistory& run) {
  std::map<double, std::vector<double>> epochs;
  for (std::size_t part = 0; part < kTimeParts.size(); ++part) {
    const Curve& curve = run.curve(std::string("train seconds.") + kTimeParts[part]);
    for (std::size_t i = 0; i < curve.steps.size(); ++i) {
      auto& seconds = epochs[std::ceil(curve.steps[i] / run.steps_per_epoch - 1e-9)];
      seconds.resize(kTimeParts.size());
      if (std::isfinite(curve.values[i])) seconds[part] += curve.values[i];
    }
  }
  return epochs;
}

void add_time_of_epochs(Section& section, const RunHistory& run) {
  if (run.steps_per_epoch <= 0) return;
  std::vector<std::string> rows;
  std::vector<std::vector<double>> seconds;
  for (const auto& [epoch, parts] : seconds_by_epoch(run)) {
    rows.push_back(fmt::format("epoch {}", epoch));
    seconds.push_back(parts);
  }
  if (rows.size() < 2 || rows.size() > kMostEpochs) return;
  section.blocks.emplace_back(drawing_of(time_plot("Time of each epoch by part", rows, seconds)));
}

}  // namespace

std::vector<double> seconds_of(const RunHistory& run) {
  std::vector<double> seconds;
  for (const char* part : kTimeParts) {
    double sum = 0;
    for (const double value : run.curve(std::string("train seconds.") + part).values) {
      if (std::isfinite(value)) sum += value;
    }
    seconds.push_back(std::max(0.0, sum));
  }
  return seconds;
}

plot::BarPlot time_plot(const std::string& title, const std::vector<std::string>& rows,
                        const std::vector<std::vector<double>>& seconds) {
  plot::BarPlot plot;
  plot.caption = {.title = title, .description = "Seconds of compute, of waiting and of other parts."};
  plot.value.label = "seconds";
  plot.rows = rows;
  plot.width = 545;
  for (std::size_t part = 0; part < kTimeParts.size(); ++part) {
    plot::BarSeries series{.name = words_of(kTimeParts[part]), .values = {}};
    for (const auto& row : seconds) series.values.push_back(row[part]);
    const bool any = std::any_of(series.values.begin(), series.values.end(), [](double value) { return value > 0; });
    if (any) plot.series.push_back(std::move(series));
  }
  return plot;
}

Section section_of_time(const RunHistory& run) {
  Section section{.title = "Time"};
  if (const Curve& speed = run.curve("train examples_per_second"); !speed.empty()) {
    const std::vector<plot::Series> series = {series_of(run, "train examples_per_second", "")};
    section.blocks.push_back(curves_drawing("Examples per second", epoch_label(run), series));
  }
  const std::vector<double> seconds = seconds_of(run);
  if (std::all_of(seconds.begin(), seconds.end(), [](double part) { return part <= 0; })) return section;
  section.blocks.emplace_back(drawing_of(time_plot("Time by part", {"all"}, {seconds})));
  add_time_of_epochs(section, run);
  section.blocks.emplace_back(time_table(seconds));
  return section;
}

}  // namespace unisono::report
