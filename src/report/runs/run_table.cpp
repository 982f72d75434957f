#include "runs/run_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/csv_field.hpp"
#include "unisono/records/json_line.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/report/report.hpp"

namespace unisono::report {
namespace {

/// Keys that identify a run but do not affect its training.
bool names_the_run(const std::string& key) { return key == "name" || key == "output"; }

/// Places of keys in a table that has not room for all: what is trained, by which method and how, comes first.
int place_of(std::string_view key) {
  constexpr std::array kFirst = {"strategy.kind", "optimizer.kind", "model.kind", "optimizer.", "strategy.", "train."};
  const auto found = std::ranges::find_if(kFirst, [&](const char* beginning) { return key.starts_with(beginning); });
  return static_cast<int>(found - kFirst.begin());
}

std::vector<std::string> differing_keys(const std::vector<records::RunRecord>& runs) {
  std::set<std::string> keys, differing;
  for (const records::RunRecord& run : runs) {
    for (const auto& [key, value] : run.config) keys.insert(key);
  }
  for (const std::string& key : keys) {
    if (names_the_run(key) || key == "seed") continue;
    std::set<std::string> values;
    for (const records::RunRecord& run : runs) values.insert(run.config.contains(key) ? run.config.at(key) : "");
    if (values.size() > 1) differing.insert(key);
  }
  std::vector<std::string> ordered(differing.begin(), differing.end());
  std::ranges::stable_sort(ordered, {}, place_of);
  return ordered;
}

/// Losses first, in the order of the splits.
std::vector<std::string> metrics_of(const std::vector<records::RunRecord>& runs) {
  constexpr std::array splits = {"train ", "validation ", "test "};
  std::vector<std::string> names;
  for (const std::string split : splits) {
    std::set<std::string> own;
    for (const records::RunRecord& run : runs) {
      for (const auto& [name, value] : run.metrics) {
        if (name.starts_with(split)) own.insert(name);
      }
    }
    if (own.erase(split + "loss") > 0) names.push_back(split + "loss");
    names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

std::vector<SeedGroup> seed_groups(const std::vector<records::RunRecord>& runs) {
  std::map<std::map<std::string, std::string>, SeedGroup> alike;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].status != "complete" && runs[i].status != "converged") continue;
    std::map<std::string, std::string> what;
    for (const auto& [key, value] : runs[i].config) {
      if (!names_the_run(key) && key != "seed") what[key] = value;
    }
    what["ranks"] = std::to_string(runs[i].ranks);
    alike[what].push_back(i);
  }
  std::vector<SeedGroup> groups;
  for (const auto& [what, group] : alike) {
    std::set<std::string> seeds;
    for (const std::size_t run : group) seeds.insert(runs[run].seed());
    if (seeds.size() > 1) groups.push_back(group);
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

using Json = nlohmann::ordered_json;
using Line = std::vector<std::string>;

constexpr std::size_t kMostKeys = 8, kWidestValue = 24;  // of the text's columns

std::string text_of(const std::string& value) {
  const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  const std::string text = quoted ? value.substr(1, value.size() - 2) : value;
  return text.size() <= kWidestValue ? text : text.substr(0, kWidestValue - 3) + "...";
}

/// The figures that a line of text has room for; JSON and CSV have all of them.
bool is_short(const std::string& metric) {
  constexpr std::array shown = {"loss", "accuracy", "rmse", "auc"};
  const std::string name = metric.substr(metric.find(' ') + 1);
  return std::find(shown.begin(), shown.end(), name) != shown.end();
}

std::optional<double> metric_of(const records::RunRecord& run, const std::string& name) {
  const auto found = run.metrics.find(name);
  return found == run.metrics.end() ? std::nullopt : std::optional(found->second);
}

/// Of a group's runs; nothing if one lacks it.
std::optional<MeanAndDeviation> mean_of(const RunTable& table, const SeedGroup& group,
                                        const std::function<std::optional<double>(const records::RunRecord&)>& figure) {
  std::vector<double> values;
  for (const std::size_t run : group) {
    const auto value = figure(table.runs[run]);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return mean_and_deviation(values);
}

std::optional<double> speed_of(const records::RunRecord& run) { return run.examples_per_second; }

Line head_of(const RunTable& table, const std::vector<std::string>& keys, const std::vector<std::string>& metrics) {
  Line line = {"run", "status"};
  if (table.seeds_differ) line.emplace_back("seed");
  line.insert(line.end(), keys.begin(), keys.end());
  line.insert(line.end(), {"ranks", "epochs"});
  line.insert(line.end(), metrics.begin(), metrics.end());
  line.emplace_back("examples/s");
  return line;
}

Line line_of(const RunTable& table, std::size_t i, const std::vector<std::string>& keys,
             const std::vector<std::string>& metrics) {
  const records::RunRecord& run = table.runs[i];
  Line line = {run.folder, run.status};
  if (table.seeds_differ) line.push_back(run.seed());
  for (const std::string& key : keys) line.push_back(text_of(table.value(i, key)));
  line.push_back(run.ranks == 0 ? "" : std::to_string(run.ranks));
  line.push_back(std::to_string(run.epochs));
  for (const std::string& metric : metrics) {
    const auto value = metric_of(run, metric);
    line.push_back(value ? fmt::format("{:.4g}", *value) : "");
  }
  line.push_back(run.examples_per_second == 0 ? "" : grouped(std::llround(run.examples_per_second)));
  return line;
}

Line line_of(const RunTable& table, const SeedGroup& group, const std::vector<std::string>& keys,
             const std::vector<std::string>& metrics) {
  const std::size_t first = group.front();
  Line line = {fmt::format("mean ± deviation of {}", group.size()), ""};
  if (table.seeds_differ) {
    std::vector<std::string> seeds;
    for (const std::size_t run : group) seeds.push_back(table.runs[run].seed());
    line.push_back(text_of(fmt::format("{}", fmt::join(seeds, ","))));
  }
  for (const std::string& key : keys) line.push_back(text_of(table.value(first, key)));
  line.push_back(std::to_string(table.runs[first].ranks));
  line.push_back(std::to_string(table.runs[first].epochs));
  for (const std::string& metric : metrics) {
    const auto mean = mean_of(table, group, [&](const records::RunRecord& run) { return metric_of(run, metric); });
    line.push_back(mean ? fmt::format("{:.4g} ± {:.2g}", mean->mean, mean->deviation) : "");
  }
  const auto speed = mean_of(table, group, speed_of);
  line.push_back(fmt::format("{} ± {}", grouped(std::llround(speed->mean)), grouped(std::llround(speed->deviation))));
  return line;
}

/// The number of characters of a UTF-8 text.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string aligned(std::vector<Line> lines) {
  for (Line& line : lines) {
    for (std::string& cell : line) cell = on_one_line(cell);
  }
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width_of(line[c]));
  }
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string blanks(widths[c] - width_of(line[c]), ' ');
      row += c == 0 ? line[c] + blanks : "  " + (c == 1 ? line[c] + blanks : blanks + line[c]);
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

Json json_of(const MeanAndDeviation& mean) { return {{"mean", mean.mean}, {"deviation", mean.deviation}}; }

/// {"test": {"loss": …}} of "test loss"
Json metrics_json(const std::vector<std::string>& names, const std::function<Json(const std::string&)>& value) {
  Json json = Json::object();
  for (const std::string& name : names) {
    const auto blank = name.find(' ');
    if (Json one = value(name); !one.is_null()) json[name.substr(0, blank)][name.substr(blank + 1)] = std::move(one);
  }
  return json;
}

Json json_of(const RunTable& table, std::size_t i) {
  const records::RunRecord& run = table.runs[i];
  Json config = Json::object();
  for (const std::string& key : table.differing) {
    if (run.config.contains(key)) config[key] = run.config.at(key);
  }
  return {{"run", run.folder},
          {"status", run.status},
          {"seed", run.seed()},
          {"config", config},
          {"ranks", run.ranks},
          {"threads", run.threads},
          {"epochs", run.epochs},
          {"steps", run.steps},
          {"metrics", metrics_json(table.metrics,
                                   [&](const std::string& name) {
                                     const auto value = metric_of(run, name);
                                     return value ? Json(*value) : Json();
                                   })},
          {"examples_per_second", run.examples_per_second},
          {"counters", run.counters}};
}

Json json_of(const RunTable& table, const SeedGroup& group) {
  Json runs = Json::array(), seeds = Json::array();
  for (const std::size_t run : group) {
    runs.push_back(table.runs[run].folder);
    seeds.push_back(table.runs[run].seed());
  }
  return {{"runs", runs},
          {"seeds", seeds},
          {"metrics", metrics_json(table.metrics,
                                   [&](const std::string& name) {
                                     const auto mean = mean_of(table, group, [&](const records::RunRecord& run) {
                                       return metric_of(run, name);
                                     });
                                     return mean ? json_of(*mean) : Json();
                                   })},
          {"examples_per_second", json_of(*mean_of(table, group, speed_of))}};
}

}  // namespace

MeanAndDeviation mean_and_deviation(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / count) * (value - sum / count);
  return {.mean = sum / count, .deviation = std::sqrt(squares / (count - 1))};
}

RunTable::RunTable(std::vector<records::RunRecord> records)
    : runs(std::move(records)), differing(differing_keys(runs)), metrics(metrics_of(runs)), groups(seed_groups(runs)) {
  std::set<std::string> seeds;
  for (const records::RunRecord& run : runs) seeds.insert(run.seed());
  seeds_differ = seeds.size() > 1;
}

std::string RunTable::value(std::size_t run, const std::string& key) const {
  const auto found = runs[run].config.find(key);
  return found == runs[run].config.end() ? "" : found->second;
}

std::set<std::string> usual_metrics(const std::set<std::string>& names) {
  const bool several = names.contains("f1") && !names.contains("f1_macro");
  std::set<std::string> usual;
  for (const std::string& name : names) {
    if (models::is_usual(name) && !(several && name == "auc")) usual.insert(name);
  }
  return usual;
}

std::vector<std::string> usual_metrics(const RunTable& table) {
  const auto split_of = [](const std::string& metric) { return metric.substr(0, metric.find(' ') + 1); };
  std::map<std::string, std::set<std::string>> names;
  for (const std::string& metric : table.metrics) {
    names[split_of(metric)].insert(metric.substr(split_of(metric).size()));
  }
  for (auto& [split, of_split] : names) of_split = usual_metrics(of_split);
  std::vector<std::string> usual;
  std::ranges::copy_if(table.metrics, std::back_inserter(usual), [&](const std::string& metric) {
    return names[split_of(metric)].contains(metric.substr(split_of(metric).size()));
  });
  return usual;
}

std::string to_text(const RunTable& table) {
  std::vector<std::string> keys = table.differing, metrics, usual = usual_metrics(table);
  if (keys.size() > kMostKeys) keys.resize(kMostKeys);
  std::copy_if(usual.begin(), usual.end(), std::back_inserter(metrics), is_short);
  std::vector<Line> lines = {head_of(table, keys, metrics)};
  for (std::size_t i = 0; i < table.runs.size(); ++i) lines.push_back(line_of(table, i, keys, metrics));
  for (const SeedGroup& group : table.groups) lines.push_back(line_of(table, group, keys, metrics));
  std::string text = aligned(std::move(lines));
  if (const std::size_t more = table.differing.size() - keys.size(); more > 0) {
    text += fmt::format("{} more key{} of the configs differ{}: --json and --csv have them\n", more,
                        more == 1 ? "" : "s", more == 1 ? "s" : "");
  }
  return text;
}

Json to_json(const RunTable& table, const std::vector<SkippedFolder>& skipped) {
  Json json = {{"differing", table.differing}, {"runs", Json::array()}, {"groups", Json::array()}};
  for (std::size_t i = 0; i < table.runs.size(); ++i) json["runs"].push_back(json_of(table, i));
  for (const SeedGroup& group : table.groups) json["groups"].push_back(json_of(table, group));
  json["skipped"] = Json::array();
  for (const auto& [folder, reason] : skipped) json["skipped"].push_back({{"folder", folder}, {"reason", reason}});
  return json;
}

std::string to_csv(const RunTable& table) {
  std::string text = "run,status,seed";
  for (const std::string& key : table.differing) text += "," + records::csv_text(key);
  text += ",ranks,threads,epochs,steps";
  for (const std::string& metric : table.metrics) text += "," + metric;
  text += ",examples_per_second\n";
  for (std::size_t i = 0; i < table.runs.size(); ++i) {
    const records::RunRecord& run = table.runs[i];
    text += records::csv_text(run.folder) + "," + run.status + "," + run.seed();
    for (const std::string& key : table.differing) text += "," + records::csv_text(table.value(i, key));
    text += fmt::format(",{},{},{},{}", run.ranks, run.threads, run.epochs, run.steps);
    for (const std::string& metric : table.metrics) {
      const auto value = metric_of(run, metric);
      text += value ? fmt::format(",{}", *value) : ",";
    }
    text += fmt::format(",{}\n", run.examples_per_second);
  }
  return text;
}

namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 4;  // folders below the one that is listed

std::string table_text(std::vector<records::RunRecord> runs, TableFormat format,
                       const std::vector<SkippedFolder>& skipped) {
  const RunTable table(std::move(runs));
  if (format == TableFormat::json) return records::json_line(to_json(table, skipped)) + "\n";
  return format == TableFormat::csv ? to_csv(table) : to_text(table);
}

/// Folders inside a folder, in the order of their names.
std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, error)) {
    if (entry.is_directory(error)) found.push_back((fs::path(folder) / entry.path().filename()).string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The runs in a folder and below it; a run's own folders are not looked into.
std::vector<std::string> runs_below(const std::string& folder, int depth) {
  if (records::holds_run(folder)) return {folder};
  std::vector<std::string> found;
  if (depth == 0) return found;
  for (const std::string& inner : folders_in(folder)) {
    const auto more = runs_below(inner, depth - 1);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

}  // namespace

std::string compare_runs(const std::vector<std::string>& runs, TableFormat format) {
  std::vector<records::RunRecord> records;
  for (const std::string& run : runs) {
    const bool slash = run.size() > 1 && run.ends_with('/');
    records.push_back(records::read_run(slash ? run.substr(0, run.size() - 1) : run));
  }
  return table_text(std::move(records), format, {});
}

std::string list_runs(const std::string& folder, TableFormat format, Log& log) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw CheckpointError(fmt::format("{}: there is no such folder; name one that holds runs", folder));
  }
  std::vector<std::string> found;
  std::vector<SkippedFolder> skipped;
  const bool is_run = records::holds_run(folder);
  for (const std::string& inner : is_run ? std::vector<std::string>{folder} : folders_in(folder)) {
    const auto runs = runs_below(inner, kDeepest - 1);
    if (runs.empty()) skipped.push_back({inner, "holds no runs"});
    found.insert(found.end(), runs.begin(), runs.end());
  }
  std::vector<records::RunRecord> records;
  for (const std::string& run : found) {
    try {
      records.push_back(records::read_run(run));
    } catch (const Error& error) {
      const std::string what = error.what();
      skipped.push_back({run, what.starts_with(run + ": ") ? what.substr(run.size() + 2) : what});
    }
  }
  for (const auto& [inner, reason] : skipped) log.warning(fmt::format("{}: {}; it is left out", inner, reason));
  if (records.empty() && format == TableFormat::text) return fmt::format("{}: holds no runs\n", folder);
  return table_text(std::move(records), format, skipped);
}

}  // namespace unisono::report
