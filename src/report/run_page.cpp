#include <fmt/format.h>

#include <optional>

#include "page.hpp"
#include "sections.hpp"
#include "texts.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::report {
namespace {

Page run_page(const ReportOptions& options, Log& log) {
  const RunHistory run = read_history(options.folders.front());
  Page page{.title = run.name(),
            .subtitle = fmt::format("A run of unisono: {}, {}, {}", run.record.status,
                                    count_of(run.record.epochs, "epoch"), count_of(run.record.steps, "step"))};
  page.add(section_of_result(run));
  page.add(section_of_metrics(run));
  page.add(section_of_examples(run, options, log));
  page.add(section_of_steps(run));
  page.add(section_of_time(run));
  page.add(section_of_counters(run));
  page.add(section_of_pipeline(run, options));
  page.add(section_of_other_figures(run));
  page.add(section_of_settings(run, options.models));
  return page;
}

using Json = nlohmann::ordered_json;

std::string setting(const RunHistory& run, const std::string& key) {
  const auto found = run.record.config.find(key);
  return found == run.record.config.end() ? "" : unquoted(found->second);
}

std::string whole(double value) { return grouped(static_cast<std::int64_t>(value)); }

class Facts {
 public:
  void add(const std::string& name, const std::string& value) {
    if (!value.empty()) table_.rows.push_back({name, value});
  }
  Table table() && { return std::move(table_); }

 private:
  Table table_{.caption = "What was trained", .head = {}, .rows = {}};
};

std::string ranks_of(const Json& summary) {
  const double ranks = number_in(summary, "ranks"), threads = number_in(summary, "threads");
  if (!(ranks > 0)) return "";
  return fmt::format("{} × {}", count_of(static_cast<std::int64_t>(ranks), "rank"),
                     count_of(static_cast<std::int64_t>(threads), "thread"));
}

Table facts_of(const RunHistory& run) {
  const Json& summary = run.summary;
  Facts facts;
  facts.add("folder", run.record.folder);
  facts.add("model", setting(run, "model.kind"));
  if (const double parameters = number_in(summary, "parameters"); parameters >= 0) {
    facts.add("parameters", whole(parameters));
  }
  facts.add("data", setting(run, "data.path"));
  facts.add("optimizer", setting(run, "optimizer.kind"));
  facts.add("strategy", setting(run, "strategy.kind"));
  facts.add("ranks", ranks_of(summary));
  facts.add("device", summary.value("device", setting(run, "device")));
  facts.add("examples of a step", setting(run, "train.batch_size"));
  facts.add("epochs planned", setting(run, "train.epochs"));
  if (run.steps_per_epoch > 0) facts.add("steps of an epoch", whole(run.steps_per_epoch));
  facts.add("seed", run.record.seed());
  facts.add("fault", summary.value("fault", ""));
  return std::move(facts).table();
}

Table result_table(const RunHistory& run) {
  Table table{.caption = "Metrics at the end", .head = {"split"}, .rows = {}};
  const std::vector<std::string> metrics = run.metrics();
  for (const std::string& metric : metrics) table.head.push_back(words_of(metric));
  for (const std::string split : {"train", "validation", "test"}) {
    std::vector<std::string> row = {split};
    bool any = false;
    for (const std::string& metric : metrics) {
      const auto found = run.record.metrics.find(split + " " + metric);
      const bool known = found != run.record.metrics.end();
      any = any || known;
      row.push_back(known ? number_text(found->second) : "");
    }
    if (any) table.rows.push_back(std::move(row));
  }
  return table;
}

Table ending_table(const RunHistory& run) {
  const Json& summary = run.summary;
  Table table{.caption = "How it ended", .head = {}, .rows = {{"status", run.record.status}}};
  table.rows.push_back({"epochs made", grouped(run.record.epochs)});
  table.rows.push_back({"steps made", grouped(run.record.steps)});
  if (const double resumed = number_in(summary, "resumed_at_step"); resumed > 0) {
    table.rows.push_back({"resumed at step", whole(resumed)});
  }
  if (const Json best = summary.value("best", Json::object()); best.contains("metric") && best.contains("value")) {
    table.rows.push_back(
        {"best " + best.value("metric", ""),
         fmt::format("{}, epoch {}", number_text(number_in(best, "value")), number_text(number_in(best, "epoch")))});
  }
  if (summary.contains("stopped_early")) table.rows.push_back({"stopped early", "yes, with the best weights"});
  if (run.record.examples_per_second > 0) {
    table.rows.push_back({"examples per second", number_text(std::round(run.record.examples_per_second))});
  }
  if (summary.contains("seconds")) {
    table.rows.push_back({"time", duration_text(number_in(summary["seconds"], "total"))});
  }
  return table;
}

/// The effective config of a text without some of its keys; nothing where it cannot be read without them.
std::optional<std::string> without(const std::string& text, const std::vector<std::string>& keys,
                                   const models::ModelKinds& models) {
  try {
    const ConfigText config{.path = "config.toml", .text = text, .overrides = {}, .removals = keys};
    return effective_config(settings::parse_config(config, models));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

const PageKind kRunPage = {
    .what = "a run",
    .fits = [](const auto& folders) { return folders.size() == 1 && records::holds_run(folders.front()); },
    .make = run_page};

Section section_of_settings(const RunHistory& run, const models::ModelKinds& models) {
  Table chosen{.caption = "Settings other than the defaults", .head = {"key", "value"}, .rows = {}};
  for (const auto& [key, value] : chosen_keys(run.config, models)) chosen.rows.push_back({key, value});
  return {
      .title = "Settings",
      .blocks = {facts_of(run), std::move(chosen), Folded{.summary = "The whole config in force", .text = run.config},
                 Folded{.summary = "The log", .text = run.log}}};
}

Section section_of_result(const RunHistory& run) {
  Section section{.title = "Result", .blocks = {ending_table(run)}};
  if (Table metrics = result_table(run); !metrics.rows.empty()) section.blocks.emplace_back(std::move(metrics));
  return section;
}

std::vector<std::pair<std::string, std::string>> chosen_keys(const std::string& effective,
                                                             const models::ModelKinds& models) {
  const std::optional<std::string> whole = without(effective, {}, models);
  std::vector<std::pair<std::string, std::string>> chosen;
  for (const auto& [key, value] : records::config_entries(effective)) {
    if (!whole || without(effective, {key}, models) != whole) chosen.emplace_back(key, value);
  }
  return chosen;
}

}  // namespace unisono::report
