#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "page.hpp"
#include "plot/plots.hpp"
#include "sections.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/metrics_log.hpp"

namespace unisono::report {
namespace {

constexpr std::size_t kMostEpochs = 40;

Table time_table(const Seconds& seconds) {
  Table table{.caption = "Seconds by part, mean over the ranks that train", .head = {"part", "seconds", "share"}};
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
  Table table{.caption = "Measured", .head = {"figure", "value"}};
  for (const auto& [name, value] : measured->items()) {
    table.rows.push_back({words_of(name), value.is_string()
                                              ? value.get<std::string>()
                                              : number_text(value.is_number() ? value.get<double>() : 0)});
  }
  section.blocks.emplace_back(std::move(table));
  return section;
}

// What a run counted, whatever its strategy: the section goes by the form of what the summary and the metrics hold. A
// histogram becomes bars, a list of objects a table, a number a row, what metrics have of them a curve.

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBars = 24;

std::string capitalised(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

bool is_histogram(const Json& value) { return value.is_object() && value.contains("counts"); }

/// The unit of a figure by its path in the summary; empty where it has none, or an older version wrote the summary.
std::string unit_of(const RunHistory& run, const std::string& path) {
  const auto units = run.summary.find("counters");
  return units == run.summary.end() || !units->is_object() ? "" : units->value(path, "");
}

std::string figure_text(double value, const std::string& unit) {
  if (unit == "share") return share_text(value, 1);
  return unit.empty() ? number_text(value) : number_text(value) + " " + unit;
}

std::vector<double> counts_of(const Json& histogram) {
  std::vector<double> counts;
  if (!histogram["counts"].is_array()) return counts;
  for (const Json& count : histogram["counts"]) counts.push_back(count.is_number() ? count.get<double>() : 0);
  return counts;
}

/// How often each value occurred; the last bar has all larger ones.
void add_histogram(Section& section, const std::string& name, const std::string& unit, const Json& histogram) {
  std::vector<double> counts = counts_of(histogram);
  if (counts.empty()) return;
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < std::min(counts.size(), kMostBars); ++i) rows.push_back(fmt::format("{}", i));
  if (counts.size() > kMostBars) {
    for (std::size_t i = kMostBars; i < counts.size(); ++i) counts[kMostBars - 1] += counts[i];
    counts.resize(kMostBars);
    rows.back() += " or more";
  }
  plot::BarPlot plot;
  plot.caption = {
      .title = capitalised(words_of(name)),
      .description = fmt::format("{} on average, at most {}.", figure_text(number_in(histogram, "mean"), unit),
                                 figure_text(number_in(histogram, "largest"), unit))};
  plot.value.label = "how often";
  plot.rows = rows;
  plot.series.push_back({.name = "", .values = counts});
  section.blocks.emplace_back(drawing_of(plot));
}

/// A column for each number of the objects, and two for each histogram.
void add_table(Section& section, const RunHistory& run, const std::string& path, const std::string& name,
               const Json& objects) {
  Table table{.caption = capitalised(words_of(name)), .head = {"number"}};
  for (const Json& object : objects) {
    if (!object.is_object()) return;
    std::vector<std::string> row = {fmt::format("{}", table.rows.size())};
    const auto add = [&](const std::string& head, const std::string& cell) {
      if (table.rows.empty()) table.head.push_back(head);
      row.push_back(cell);
    };
    for (const auto& [key, value] : object.items()) {
      if (is_histogram(value)) {
        add("mean " + words_of(key), number_text(number_in(value, "mean")));
        add("largest " + words_of(key), number_text(number_in(value, "largest")));
      } else if (value.is_number()) {
        const bool is_share = unit_of(run, path + name + "." + key) == "share";
        add(words_of(key), is_share ? share_text(value.get<double>(), 1) : number_text(value.get<double>()));
      }
    }
    table.rows.push_back(std::move(row));
  }
  if (!table.rows.empty()) section.blocks.emplace_back(std::move(table));
}

/// Histograms and lists of objects, in an object and in those inside it.
void add_drawings(Section& section, const RunHistory& run, const std::string& path, const Json& object) {
  for (const auto& [name, value] : object.items()) {
    if (is_histogram(value)) {
      add_histogram(section, name, unit_of(run, path + name), value);
    } else if (value.is_object()) {
      add_drawings(section, run, path + name + ".", value);
    } else if (value.is_array()) {
      add_table(section, run, path, name, value);
    }
  }
}

/// The numbers of an object and of those inside it, as rows.
void add_numbers(const RunHistory& run, const Json& object, const std::string& path, const std::string& words,
                 Table& table) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) add_numbers(run, value, path + name + ".", words + words_of(name) + ", ", table);
    if (value.is_number()) {
      table.rows.push_back({words + words_of(name), figure_text(value.get<double>(), unit_of(run, path + name))});
    }
    if (value.is_string()) table.rows.push_back({words + words_of(name), value.get<std::string>()});
  }
}

/// The summary without what other sections of the page show.
Json other_figures(const Json& summary) {
  static const std::set<std::string_view> kShownElsewhere = {
      "name",          "status",         "strategy", "ranks",
      "threads",       "batch_size",     "seconds",  "batch_size_per_rank",
      "parameters",    "epochs",         "steps",    "batch_statistics",
      "seed",          "device",         "best",     "examples_per_second",
      "train",         "validation",     "test",     "examples_per_second_and_thread",
      "counters",      "chosen",         "fault",    "steps_per_epoch",
      "stopped_early", "resumed_at_step"};
  Json others = Json::object();
  for (const auto& [name, value] : summary.items()) {
    if (!kShownElsewhere.contains(name)) others[name] = value;
  }
  return others;
}

}  // namespace

std::vector<CounterCurve> counter_curves(const RunHistory& run) {
  const std::string split = "train ", mean = ".mean";
  std::vector<CounterCurve> found;
  for (const auto& [curve, values] : run.curves) {
    if (!curve.starts_with(split) || values.empty()) continue;
    std::string name = curve.substr(split.size());
    if (name.find('.') == std::string::npos) {
      if (!models::is_metric(name) && !records::is_report_field(name)) found.push_back({curve, words_of(name)});
    } else if (name.ends_with(mean)) {
      name.resize(name.size() - mean.size());
      found.push_back({curve, "mean " + words_of(name.substr(name.rfind('.') + 1))});
    }
  }
  return found;
}

Section section_of_counters(const RunHistory& run) {
  Section section{.title = "Counters"};
  add_drawings(section, run, "", other_figures(run.summary));
  for (const CounterCurve& one : counter_curves(run)) {
    const std::vector<plot::Series> series = {series_of(run, one.curve, "")};
    section.blocks.push_back(curves_drawing(capitalised(one.words), epoch_label(run), series));
  }
  return section;
}

Section section_of_other_figures(const RunHistory& run) {
  Table table{.caption = "Other figures of the summary", .head = {"figure", "value"}};
  add_numbers(run, other_figures(run.summary), "", "", table);
  if (table.rows.empty()) return {.title = "Other figures"};
  return {.title = "Other figures", .blocks = {std::move(table)}};
}

}  // namespace unisono::report
