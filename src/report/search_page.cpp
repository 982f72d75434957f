#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "page.hpp"
#include "plot/frame.hpp"
#include "sections.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::report {
namespace {

constexpr std::size_t kMostRows = 2000;

std::string status_of(const trials::TrialRecord& trial) {
  return std::string(trial.has_ended ? name_of(trial.status, records::kTrialStatuses) : "unfinished");
}

/// "61 complete, 3 diverged"
std::string ends_text(const SearchHistory& search) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [number, trial] : search.plan->trials()) ++counts[status_of(trial)];
  std::string text;
  for (const auto& [status, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(count), status);
  }
  return text;
}

Table facts_of(const SearchHistory& search) {
  const TrialsHistory& job = search.job;
  const search::SearchSettings& settings = search.settings();
  Table table{.caption = "The search", .rows = {{"status", job.status}}};
  const auto add = [&](const char* name, std::string value) { table.rows.push_back({name, std::move(value)}); };
  add("method", std::string(name_of(settings.method, search::kSearchKinds)));
  add("trials",
      fmt::format("{} of {}", grouped(std::ssize(search.plan->trials())), grouped(search.plan->method().trials())));
  add("ended as", ends_text(search));
  add("compared by",
      fmt::format("{}; {} is better", words_of(search.metric), search.larger_is_better ? "larger" : "smaller"));
  if (settings.repeats > 1) add("seeds of a trial", grouped(settings.repeats));
  if (job.folds > 0) add("folds of a trial", grouped(job.folds));
  add("time", duration_text(job.seconds));
  double sum = 0;
  for (const TrainingSpan& span : job.trainings) sum += span.end - span.start;
  add("seconds of all trainings", number_text(sum));
  const std::size_t at_once = job.at_once();
  add("at the same time", grouped(static_cast<std::int64_t>(at_once)));
  add("busy", share_text(sum, job.seconds * static_cast<double>(at_once)));
  return table;
}

Table best_table(const SearchHistory& search, std::int64_t best) {
  const trials::TrialRecord& trial = search.plan->trials().at(best);
  Table table{.caption = "The best trial", .rows = {{"trial", grouped(best)}}};
  std::string value = number_text(trial.value);
  if (trial.results.size() > 1) value += fmt::format(" ± {:.2g}", trial.deviation);
  table.rows.push_back({words_of(search.metric), value});
  for (const auto& [key, text] : search.settings_of(best)) table.rows.push_back({key, unquoted(text)});
  return table;
}

Table refit_table(const SearchHistory& search) {
  const records::TrialResult& refit = *search.plan->refitted();
  Table table{.caption = "The best trial's settings, trained on all examples"};
  table.rows.push_back({"status", std::string(name_of(refit.status, records::kTrialStatuses))});
  if (!refit.message.empty()) table.rows.push_back({"message", refit.message});
  for (const records::MeasuredMetric& metric : refit.metrics) {
    table.rows.push_back(
        {fmt::format("{} {}", data::name_of(metric.split), words_of(metric.name)), number_text(metric.value)});
  }
  return table;
}

/// The numbers of the trials that the table shows: all, or the best ones.
std::vector<std::int64_t> shown_trials(const SearchHistory& search) {
  std::vector<std::int64_t> numbers;
  for (const auto& [number, trial] : search.plan->trials()) numbers.push_back(number);
  if (numbers.size() <= kMostRows) return numbers;
  std::stable_sort(numbers.begin(), numbers.end(), [&](auto a, auto b) {
    const double x = search.value(a), y = search.value(b);
    return std::isnan(y) ? !std::isnan(x) : !std::isnan(x) && search.is_better(x, y);
  });
  numbers.resize(kMostRows);
  return numbers;
}

Page search_page(const ReportOptions& options, Log&) {
  const SearchHistory search = read_search(options.folders.front(), options.models);
  Page page{.title = search.job.name(),
            .subtitle = fmt::format("A search of unisono: {}, {}", search.job.status,
                                    count_of(std::ssize(search.plan->trials()), "trial"))};
  page.add(section_of_search_result(search));
  page.add(section_of_space(search));
  page.add(section_of_course(search));
  page.add(section_of_timeline(search.job));
  page.add(section_of_trials(search));
  page.add(section_of_trials_config(search.job));
  return page;
}

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

std::string kind_of(const ConfigValue& option) {
  const ConfigValue* const kind = option.table() == nullptr ? nullptr : option.find("kind");
  return kind == nullptr ? "" : unquoted(toml_text(*kind));
}

/// A choice in a few characters: a table's kind, where no other choice has the same.
std::string name_of_choice(const search::Parameter& parameter, std::size_t option) {
  const std::string kind = kind_of(parameter.choices[option]);
  const auto same = std::ranges::count_if(parameter.choices, [&](const auto& one) { return kind_of(one) == kind; });
  if (!kind.empty() && same == 1) return kind;
  if (!kind.empty()) return fmt::format("{} {}", kind, option + 1);
  return unquoted(toml_text(parameter.choices[option]));
}

/// "optimizer[adam].learning_rate" of "optimizer[1].learning_rate"
std::string name_of_parameter(const search::Space& space, std::size_t i) {
  const search::Parameter& parameter = space.parameters()[i];
  if (parameter.owner < 0) return parameter.key;
  const auto owner = static_cast<std::size_t>(parameter.owner);
  const search::Parameter& around = space.parameters()[owner];
  const std::size_t prefix = fmt::format("{}[{}]", around.key, parameter.option).size();
  return fmt::format("{}[{}]{}", name_of_parameter(space, owner),
                     name_of_choice(around, static_cast<std::size_t>(parameter.option)), parameter.key.substr(prefix));
}

double number_at(const search::Parameter& parameter, double u) {
  if (parameter.scale == search::Scale::choice) return static_cast<double>(parameter.index(u));
  return parameter.at(u).number().value_or(kNoNumber);
}

SearchColumn column_of(const search::Space& space, std::size_t i) {
  const search::Parameter& parameter = space.parameters()[i];
  SearchColumn column{.name = name_of_parameter(space, i), .axis = {}, .values = {}};
  column.axis.label = column.name;
  if (parameter.scale == search::Scale::log) column.axis.spacing = plot::Spacing::logarithmic;
  if (parameter.scale != search::Scale::choice) return column;
  for (std::size_t option = 0; option < parameter.choices.size(); ++option) {
    column.axis.choices.push_back(plot::shortened(name_of_choice(parameter, option), 130));
  }
  return column;
}

}  // namespace

Section section_of_search_result(const SearchHistory& search) {
  Section section{.title = "Result", .blocks = {facts_of(search)}};
  if (const auto best = search.plan->best()) section.blocks.emplace_back(best_table(search, *best));
  if (search.plan->refitted()) section.blocks.emplace_back(refit_table(search));
  return section;
}

Section section_of_trials(const SearchHistory& search) {
  const auto& trials = search.plan->trials();
  if (trials.empty()) return {.title = "Trials"};
  const std::vector<std::string> keys = column_names(search);
  const bool has_deviations = search.plan->trainings_per_step() > 1;
  const bool has_messages =
      std::any_of(trials.begin(), trials.end(), [](const auto& trial) { return !trial.second.message.empty(); });
  Table table{.caption = trials.size() > kMostRows ? fmt::format("The best {} trials", grouped(kMostRows)) : "Trials",
              .head = {"trial", "status", words_of(search.metric)}};
  if (has_deviations) table.head.emplace_back("deviation");
  table.head.insert(table.head.end(), {"epochs", "seconds"});
  table.head.insert(table.head.end(), keys.begin(), keys.end());
  if (has_messages) table.head.emplace_back("why");
  for (const std::int64_t number : shown_trials(search)) {
    const trials::TrialRecord& trial = trials.at(number);
    const double value = search.value(number);
    std::vector<std::string> row = {fmt::format("{}", number), status_of(trial),
                                    std::isnan(value) ? "" : number_text(value)};
    if (has_deviations) row.push_back(std::isnan(value) ? "" : number_text(trial.deviation));
    row.push_back(trial.results.empty() ? "" : grouped(trial.results.begin()->second.epochs));
    row.push_back(number_text(trial.seconds));
    const std::vector<std::string> cells = cells_of(search, number);
    row.insert(row.end(), cells.begin(), cells.end());
    if (has_messages) row.push_back(trial.message);
    table.rows.push_back(std::move(row));
  }
  return {.title = "Trials", .blocks = {std::move(table)}};
}

Section section_of_trials_config(const TrialsHistory& job) {
  return {.title = "Settings", .blocks = {Folded{.summary = "The whole config in force", .text = job.config}}};
}

const PageKind kSearchPage = {.what = "a search", .fits = is_one<records::FolderOwner::search>, .make = search_page};

SearchTable table_of(const SearchHistory& search) {
  SearchTable table;
  for (std::size_t i = 0; i < search.space.parameters().size(); ++i)
    table.columns.push_back(column_of(search.space, i));
  for (const auto& [number, trial] : search.plan->trials()) {
    const double value = search.value(number);
    if (!std::isfinite(value)) continue;
    table.trials.push_back(number);
    table.values.push_back(value);
    table.epochs.push_back(static_cast<double>(trial.results.begin()->second.epochs));
    const search::Point point = search.plan->method().point(number);
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const bool is_active = search.space.is_active(i, point);
      table.columns[i].values.push_back(is_active ? number_at(search.space.parameters()[i], point[i]) : kNoNumber);
    }
  }
  return table;
}

std::vector<std::string> column_names(const SearchHistory& search) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < search.space.parameters().size(); ++i) {
    names.push_back(name_of_parameter(search.space, i));
  }
  return names;
}

std::vector<std::string> cells_of(const SearchHistory& search, std::int64_t trial) {
  const search::Point point = search.plan->method().point(trial);
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < search.space.parameters().size(); ++i) {
    const search::Parameter& parameter = search.space.parameters()[i];
    std::string& cell = cells.emplace_back();
    if (!search.space.is_active(i, point)) continue;
    cell = parameter.scale == search::Scale::choice
               ? name_of_choice(parameter, static_cast<std::size_t>(parameter.index(point[i])))
               : toml_text(parameter.at(point[i]));
  }
  return cells;
}

}  // namespace unisono::report
