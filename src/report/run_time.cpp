#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "plot/plots.hpp"
#include "run_sections.hpp"
#include "texts.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::report {
namespace {

constexpr std::size_t kMostEpochs = 40;

Table time_table(const Seconds& seconds) {
  Table table{
      .caption = "Seconds by part, mean over the ranks that train", .head = {"part", "seconds", "share"}, .rows = {}};
  for (const SecondsPart& part : kSecondsParts) {
    const double own = seconds.*part.value;
    if (own > 0) table.rows.push_back({words_of(part.name), number_text(own), share_text(own, seconds.sum())});
  }
  table.rows.push_back({"total", number_text(seconds.sum()), ""});
  return table;
}

const Curve& curve_of(const RunHistory& run, const SecondsPart& part) {
  return run.curve("train seconds." + std::string(part.name));
}

/// The seconds of each epoch, from the reports that end in it.
std::map<double, Seconds> seconds_by_epoch(const RunHistory& run) {
  std::map<double, Seconds> epochs;
  for (const SecondsPart& part : kSecondsParts) {
    const Curve& curve = curve_of(run, part);
    for (std::size_t i = 0; i < curve.steps.size(); ++i) {
      Seconds& seconds = epochs[std::ceil(curve.steps[i] / run.steps_per_epoch - 1e-9)];
      if (std::isfinite(curve.values[i])) seconds.*part.value += curve.values[i];
    }
  }
  return epochs;
}

void add_time_of_epochs(Section& section, const RunHistory& run) {
  if (run.steps_per_epoch <= 0) return;
  std::vector<std::string> rows;
  std::vector<Seconds> seconds;
  for (const auto& [epoch, parts] : seconds_by_epoch(run)) {
    rows.push_back(fmt::format("epoch {}", epoch));
    seconds.push_back(parts);
  }
  if (rows.size() < 2 || rows.size() > kMostEpochs) return;
  section.blocks.emplace_back(drawing_of(time_plot("Time of each epoch by part", rows, seconds)));
}

Block timeline_of(const RunHistory& run, const ReportOptions& options) {
  try {
    return Drawing{.title = "A step of the pipeline, predicted",
                   .svg = options.predict_timeline(run.record.folder, run.config, run.record.ranks),
                   .on_paper = true};
  } catch (const Error& error) {
    return Paragraph{fmt::format("The timeline of a step cannot be predicted: {}", error.what())};
  }
}

}  // namespace

Seconds seconds_of(const RunHistory& run) {
  Seconds seconds;
  for (const SecondsPart& part : kSecondsParts) {
    for (const double value : curve_of(run, part).values) {
      if (std::isfinite(value)) seconds.*part.value += value;
    }
    seconds.*part.value = std::max(0.0, seconds.*part.value);
  }
  return seconds;
}

plot::BarPlot time_plot(const std::string& title, const std::vector<std::string>& rows,
                        const std::vector<Seconds>& seconds) {
  plot::BarPlot plot;
  plot.caption = {.title = title, .description = "Seconds of compute, of waiting and of other parts."};
  plot.value.label = "seconds";
  plot.rows = rows;
  plot.width = 545;
  for (const SecondsPart& part : kSecondsParts) {
    plot::BarSeries series{.name = words_of(part.name), .values = {}};
    for (const Seconds& row : seconds) series.values.push_back(row.*part.value);
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
  const Seconds seconds = seconds_of(run);
  if (seconds.sum() <= 0) return section;
  section.blocks.emplace_back(drawing_of(time_plot("Time by part", {"all"}, {seconds})));
  add_time_of_epochs(section, run);
  section.blocks.emplace_back(time_table(seconds));
  return section;
}

Section section_of_pipeline(const RunHistory& run, const ReportOptions& options) {
  Section section{.title = "Pipeline"};
  const auto stages = run.record.config.find("replica.stages");
  if (stages == run.record.config.end() || stages->second == "1") return section;
  if (options.predict_timeline) section.blocks.push_back(timeline_of(run, options));
  const auto measured = run.summary.find("pipeline");
  if (measured == run.summary.end() || !measured->is_object()) return section;
  Table table{.caption = "Measured", .head = {"figure", "value"}, .rows = {}};
  for (const auto& [name, value] : measured->items()) {
    table.rows.push_back({words_of(name), value.is_string()
                                              ? value.get<std::string>()
                                              : number_text(value.is_number() ? value.get<double>() : 0)});
  }
  section.blocks.emplace_back(std::move(table));
  return section;
}

}  // namespace unisono::report
