#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "page.hpp"
#include "runs/run_table.hpp"
#include "sections.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::report {
namespace {

/// Several runs, with names that tell them apart.
struct Runs {
  std::vector<RunHistory> runs;
  std::vector<std::string> names;
  RunTable table;
};

/// The last parts of the folders' names, or the whole names where two of these are the same.
std::vector<std::string> names_of(const std::vector<RunHistory>& runs) {
  std::set<std::string> different;
  for (const RunHistory& run : runs) different.insert(run.name());
  std::vector<std::string> names;
  for (const RunHistory& run : runs) names.push_back(different.size() == runs.size() ? run.name() : run.record.folder);
  return names;
}

Runs read_runs(const std::vector<std::string>& folders) {
  std::vector<RunHistory> runs;
  std::vector<records::RunRecord> records;
  for (const std::string& folder : folders) {
    runs.push_back(read_history(folder));
    records.push_back(runs.back().record);
  }
  std::vector<std::string> names = names_of(runs);
  return {.runs = std::move(runs), .names = std::move(names), .table = RunTable(std::move(records))};
}

/// The table as it is, or with a column a run where a row a run would be much wider.
Table narrow(Table table) {
  constexpr std::size_t kMostColumns = 8, kMostRuns = 6;
  if (table.head.size() <= kMostColumns || table.rows.size() > kMostRuns) return table;
  Table turned{.caption = table.caption, .head = {table.head.front()}};
  for (const auto& row : table.rows) turned.head.push_back(row.front());
  for (std::size_t column = 1; column < table.head.size(); ++column) {
    std::vector<std::string>& cells = turned.rows.emplace_back(1, table.head[column]);
    for (const auto& row : table.rows) cells.push_back(row[column]);
  }
  return turned;
}

Table table_of_differences(const Runs& all) {
  Table table{.caption = "What differs in the settings", .head = {"run"}};
  if (all.table.seeds_differ) table.head.emplace_back("seed");
  for (const std::string& key : all.table.differing) table.head.push_back(key);
  table.head.emplace_back("ranks");
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    std::vector<std::string> row = {all.names[i]};
    if (all.table.seeds_differ) row.push_back(all.runs[i].record.seed());
    for (const std::string& key : all.table.differing) row.push_back(unquoted(all.table.value(i, key)));
    row.push_back(all.runs[i].record.ranks == 0 ? "" : fmt::format("{}", all.runs[i].record.ranks));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table table_of_results(const Runs& all) {
  Table table{.caption = "Results", .head = {"run", "status", "epochs", "steps"}};
  const std::vector<std::string> metrics = usual_metrics(all.table);
  for (const std::string& metric : metrics) table.head.push_back(words_of(metric));
  table.head.insert(table.head.end(), {"examples/s", "seconds"});
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    const records::RunRecord& run = all.runs[i].record;
    std::vector<std::string> row = {all.names[i], run.status, grouped(run.epochs), grouped(run.steps)};
    for (const std::string& metric : metrics) {
      const auto found = run.metrics.find(metric);
      row.push_back(found == run.metrics.end() ? "" : number_text(found->second));
    }
    row.push_back(run.examples_per_second == 0 ? "" : number_text(std::round(run.examples_per_second)));
    row.push_back(number_text(seconds_of(all.runs[i]).sum()));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Of complete runs that differ by their seeds alone.
Table table_of_seeds(const Runs& all) {
  Table table{.caption = "Mean ± standard deviation over seeds", .head = {"runs"}};
  const std::vector<std::string> metrics = usual_metrics(all.table);
  for (const std::string& metric : metrics) table.head.push_back(words_of(metric));
  for (const SeedGroup& group : all.table.groups) {
    std::string names;
    for (const std::size_t run : group) names += (names.empty() ? "" : ", ") + all.names[run];
    std::vector<std::string> row = {names};
    for (const std::string& metric : metrics) {
      std::vector<double> values;
      for (const std::size_t run : group) {
        const auto& own = all.runs[run].record.metrics;
        if (const auto found = own.find(metric); found != own.end()) values.push_back(found->second);
      }
      const auto [mean, deviation] =
          values.size() > 1 ? mean_and_deviation(values) : MeanAndDeviation{std::nan(""), std::nan("")};
      row.push_back(std::isnan(mean) ? "" : fmt::format("{:.4g} ± {:.2g}", mean, deviation));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string label_of_all(const Runs& all) {
  const bool epochs = std::all_of(all.runs.begin(), all.runs.end(), [](auto& run) { return run.steps_per_epoch > 0; });
  return epochs ? "epoch" : "step";
}

/// A curve of each run that has it, in the run's colour.
std::vector<plot::Series> curves_of(const Runs& all, const std::string& curve) {
  std::vector<plot::Series> series;
  const bool by_epoch = label_of_all(all) == "epoch";
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    if (all.runs[i].curve(curve).empty()) continue;
    plot::Series one = series_of(all.runs[i], curve, all.names[i]);
    if (!by_epoch) one.x = all.runs[i].curve(curve).steps;
    one.colour = i;
    series.push_back(std::move(one));
  }
  return series;
}

void add_plot(Section& section, const Runs& all, const std::string& curve, const std::string& title) {
  std::vector<plot::Series> series = curves_of(all, curve);
  if (series.empty()) return;
  section.blocks.push_back(curves_drawing(title, label_of_all(all), std::move(series)));
}

Section section_of_curves(const Runs& all) {
  std::vector<std::string> metrics;  // losses first
  for (const RunHistory& run : all.runs) {
    for (const std::string& metric : run.metrics()) {
      if (std::find(metrics.begin(), metrics.end(), metric) == metrics.end()) metrics.push_back(metric);
    }
  }
  Section section{.title = "Curves"};
  for (const std::string& metric : metrics) {
    for (const std::string split : {"train", "validation", "test"}) {
      // A single evaluation at the end is in the table of results.
      const auto has_course = [&](const RunHistory& run) { return run.curve(split + " " + metric).steps.size() > 1; };
      if (!std::any_of(all.runs.begin(), all.runs.end(), has_course)) continue;
      add_plot(section, all, split + " " + metric, split + " " + words_of(metric));
    }
  }
  add_plot(section, all, "train learning_rate", "learning rate");
  add_plot(section, all, "train gradient_norm", "norm of the gradient");
  return section;
}

/// The training loss over the seconds of training.
void add_loss_over_time(Section& section, const Runs& all) {
  std::vector<plot::Series> series = curves_of(all, "train loss");
  for (plot::Series& one : series) {
    const Curve& seconds = all.runs[*one.colour].curve("train seconds.total");
    if (seconds.values.size() != one.x.size()) return;
    double sum = 0;
    for (std::size_t i = 0; i < one.x.size(); ++i) {
      sum += std::isfinite(seconds.values[i]) ? seconds.values[i] : 0;
      one.x[i] = sum;
    }
  }
  if (series.empty()) return;
  section.blocks.push_back(curves_drawing("train loss over seconds", "seconds", std::move(series)));
}

Section section_of_times(const Runs& all) {
  Section section{.title = "Time"};
  add_loss_over_time(section, all);
  add_plot(section, all, "train examples_per_second", "Examples per second");
  std::vector<Seconds> seconds;
  for (const RunHistory& run : all.runs) seconds.push_back(seconds_of(run));
  section.blocks.emplace_back(drawing_of(time_plot("Time by part", all.names, seconds)));
  return section;
}

Page runs_page(const ReportOptions& options, Log&) {
  const Runs all = read_runs(options.folders);
  Page page{.title = count_of(static_cast<std::int64_t>(all.runs.size()), "run") + " beside each other",
            .subtitle = {}};
  for (const std::string& folder : options.folders) page.subtitle += (page.subtitle.empty() ? "" : ", ") + folder;
  Section results{.title = "Results", .blocks = {narrow(table_of_differences(all)), narrow(table_of_results(all))}};
  if (!all.table.groups.empty()) results.blocks.emplace_back(table_of_seeds(all));
  page.add(std::move(results));
  page.add(section_of_curves(all));
  page.add(section_of_times(all));
  return page;
}

}  // namespace

const PageKind kRunsPage = {.what = "several runs",
                            .fits =
                                [](const auto& folders) {
                                  return folders.size() > 1 &&
                                         std::all_of(folders.begin(), folders.end(), records::holds_run);
                                },
                            .make = runs_page};

}  // namespace unisono::report
