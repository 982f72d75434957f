#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "history.hpp"
#include "page.hpp"
#include "plot/plots.hpp"
#include "runs/run_table.hpp"
#include "sections.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::report {
namespace {

constexpr std::size_t kMostFolds = 2000, kMostFoldTitles = 1000;

std::string whole_or_empty(double number) { return std::isnan(number) ? "" : grouped(std::llround(number)); }

Table facts_of(const ValidationHistory& validation) {
  const TrialsHistory& job = validation.job;
  Table table{.caption = "The cross-validation", .rows = {{"status", job.status}}};
  table.rows.push_back({"folds", grouped(job.folds)});
  if (job.status != "complete")
    table.rows.push_back({"folds that have ended", whole_or_empty(std::size(validation.folds))});
  if (!std::isnan(validation.examples)) table.rows.push_back({"examples", whole_or_empty(validation.examples)});
  if (job.trainings.empty()) {
    table.rows.push_back({"models", "solved exactly, not trained"});
    return table;
  }
  table.rows.push_back({"time", duration_text(job.seconds)});
  table.rows.push_back({"at the same time", grouped(static_cast<std::int64_t>(job.at_once()))});
  return table;
}

Table figures_table(const ValidationHistory& validation) {
  Table table{.caption = "Metrics of the validation examples",
              .head = {"metric", "mean", "folds", "deviation", "95 % interval of the mean", "pooled"}};
  for (const FoldFigures& one : validation.figures) {
    const records::Interval& interval = one.interval;
    table.rows.push_back(
        {words_of(one.name), number_text(interval.mean), std::isnan(one.folds) ? "" : number_text(one.folds),
         number_text(interval.deviation),
         std::isnan(interval.low) ? "" : fmt::format("{} to {}", number_text(interval.low), number_text(interval.high)),
         std::isnan(one.pooled) ? "" : number_text(one.pooled)});
  }
  return table;
}

/// Those of usual metrics: charts and the lines of folds have no room for all.
std::vector<FoldFigures> usual_figures(const ValidationHistory& validation) {
  std::set<std::string> names;
  for (const FoldFigures& one : validation.figures) names.insert(one.name);
  names = usual_metrics(names);
  std::vector<FoldFigures> usual;
  std::ranges::copy_if(validation.figures, std::back_inserter(usual),
                       [&](const FoldFigures& one) { return names.contains(one.name); });
  return usual;
}

/// A dot for each fold, the mean, and the mean's interval as a band.
Drawing folds_drawing(const ValidationHistory& validation, const FoldFigures& figures) {
  plot::Series folds{.name = "folds", .mark = plot::Mark::points, .colour = 0};
  for (const FoldLine& line : validation.folds) {
    if (line.status != "complete" || !line.metrics.contains(figures.name)) continue;
    folds.x.push_back(static_cast<double>(line.fold));
    folds.y.push_back(line.metrics.at(figures.name));
    folds.titles.push_back(fmt::format("fold {}: {}", line.fold, number_text(folds.y.back())));
  }
  if (folds.titles.size() > kMostFoldTitles) folds.titles.clear();
  const auto last = static_cast<double>(std::max<std::int64_t>(1, validation.job.folds - 1));
  const records::Interval& interval = figures.interval;
  plot::Series mean{.name = "mean, with its interval", .x = {-0.5, last + 0.5}, .y = {interval.mean, interval.mean}};
  mean.colour = 1;
  if (!std::isnan(interval.low)) {
    mean.low = {interval.low, interval.low};
    mean.high = {interval.high, interval.high};
  }
  plot::XyPlot plot;
  plot.caption = {.title = words_of(figures.name),
                  .description = fmt::format("Of each fold; the mean is {}.", number_text(interval.mean))};
  plot.x.label = "fold";
  plot.x.minimum = -0.5;
  plot.x.maximum = last + 0.5;
  plot.y = axis_for({folds});
  plot.series = {std::move(mean), std::move(folds)};
  plot.width = 545;
  return drawing_of(plot);
}

Section section_of_figures(const ValidationHistory& validation) {
  Section section{.title = "Result", .blocks = {facts_of(validation)}};
  if (validation.figures.empty()) return section;
  section.blocks.emplace_back(figures_table(validation));
  if (validation.corrected_for_overlap) {
    section.blocks.emplace_back(
        Paragraph{"The intervals are corrected for training examples that folds have in common (Nadeau & Bengio)."});
  }
  if (validation.job.status != "complete") {
    section.blocks.emplace_back(Paragraph{"Of the folds that have ended; intervals are not corrected for overlap."});
  }
  for (const FoldFigures& one : usual_figures(validation)) section.blocks.emplace_back(folds_drawing(validation, one));
  return section;
}

Section section_of_classes(const ValidationHistory& validation) {
  Section section{.title = "Classes"};
  const bool has_classes = std::any_of(validation.figures.begin(), validation.figures.end(),
                                       [](const FoldFigures& one) { return one.name == "accuracy"; });
  if (!has_classes || validation.job.status != "complete") return section;
  const auto classes = read_classes(validation.job.folder + "/predictions.csv", validation.class_names);
  if (!classes || !classes->matrix.has_cells()) return section;
  section.blocks.emplace_back(
      Paragraph{"What examples were taken for by models that were not trained on them, over all folds."});
  add_matrix(section, classes->matrix, classes->names);
  return section;
}

Section section_of_folds(const ValidationHistory& validation) {
  Section section{.title = "Folds"};
  if (validation.folds.empty()) return section;
  const std::size_t shown = std::min(kMostFolds, validation.folds.size());
  const bool has_messages = std::any_of(validation.folds.begin(), validation.folds.end(),
                                        [](const FoldLine& line) { return !line.message.empty(); });
  Table table{
      .caption = shown < validation.folds.size() ? fmt::format("The first {} folds", grouped(kMostFolds)) : "Folds",
      .head = {"fold", "status", "training examples", "validation examples", "seconds"}};
  const std::vector<FoldFigures> figures = usual_figures(validation);
  for (const FoldFigures& one : figures) table.head.push_back(words_of(one.name));
  if (has_messages) table.head.emplace_back("why");
  for (std::size_t i = 0; i < shown; ++i) {
    const FoldLine& line = validation.folds[i];
    std::vector<std::string> row = {fmt::format("{}", line.fold), line.status, whole_or_empty(line.training_examples),
                                    whole_or_empty(line.validation_examples), number_text(line.seconds)};
    for (const FoldFigures& one : figures) {
      const auto found = line.metrics.find(one.name);
      row.push_back(found == line.metrics.end() ? "" : number_text(found->second));
    }
    if (has_messages) row.push_back(line.message);
    table.rows.push_back(std::move(row));
  }
  section.blocks.emplace_back(std::move(table));
  return section;
}

/// What the search within each fold chose, and how far its own folds were too hopeful about it.
Section section_of_searches(const ValidationHistory& validation) {
  Section section{.title = "Searches within folds"};
  if (validation.searches.empty()) return section;
  section.blocks.emplace_back(Paragraph{
      "Within each fold a search chose the settings, on the fold's training examples alone. The first value is that by "
      "which they were chosen, the second that of the fold, which had no part in the choice."});
  Table table{.caption = "What was chosen",
              .head = {"fold", "trials", "chosen", "settings", "within the fold", "on the fold"}};
  for (const FoldSearch& search : validation.searches) {
    const bool is_known = search.chosen >= 0;
    table.rows.push_back({fmt::format("{}", search.fold), grouped(search.trials),
                          is_known ? fmt::format("trial {}", search.chosen) : "", search.choice,
                          is_known ? number_text(search.value) : "", is_known ? number_text(search.measured) : ""});
  }
  section.blocks.emplace_back(std::move(table));
  return section;
}

Page validation_page(const ReportOptions& options, Log&) {
  const ValidationHistory validation = read_validation(options.folders.front());
  Page page{.title = validation.job.name(),
            .subtitle = fmt::format("A cross-validation of unisono: {}, {}", validation.job.status,
                                    count_of(validation.job.folds, "fold"))};
  page.add(section_of_figures(validation));
  page.add(section_of_searches(validation));
  page.add(section_of_classes(validation));
  page.add(section_of_timeline(validation.job));
  page.add(section_of_folds(validation));
  page.add(section_of_trials_config(validation.job));
  return page;
}

}  // namespace

const PageKind kValidationPage = {
    .what = "a cross-validation", .fits = is_one<records::FolderOwner::cross_validation>, .make = validation_page};

}  // namespace unisono::report
