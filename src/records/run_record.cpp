#include "unisono/records/run_record.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/config_entries.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::records {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array kSplitNames = {"train", "validation", "test"};

[[noreturn]] void fail_run(const std::string& folder, const std::string& why) {
  throw CheckpointError(fmt::format("{}: {}", folder, why));
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

bool is_locked(const std::string& path) {
  struct stat lock {};
  if (::stat(path.c_str(), &lock) != 0) return false;
  const std::string inode = fmt::format(":{} ", lock.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    if (line.find("FLOCK") != std::string::npos && line.find(inode) != std::string::npos) return true;
  }
  return false;
}

namespace {

std::int64_t integer(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

/// Every number of an object that is a metric of the model.
void add_metrics(const Json& object, const std::string& split, RunRecord& run) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_number() && models::is_metric(name)) run.metrics[split + " " + name] = value.get<double>();
  }
}

void add_line(const MetricsLine& line, RunRecord& run) {
  const Json json = line.fields();
  run.steps = std::max(run.steps, integer(json, "step"));
  run.epochs = std::max(run.epochs, integer(json, "epoch"));
  if (json.value("event", "") == "evaluation") return add_metrics(json, json.value("split", "test"), run);
  const auto speed = json.find("examples_per_second");
  if (speed != json.end() && speed->is_number()) run.examples_per_second = speed->get<double>();
  add_metrics(json, "train", run);
}

/// The last evaluations and the last report; of the many reports only this one is parsed.
void add_metrics_log(const std::string& folder, RunRecord& run) {
  MetricsReader reader(folder);
  std::optional<MetricsLine> report;
  while (auto line = reader.next()) {
    if (line->is_report()) {
      report = std::move(line);
    } else {
      add_line(*line, run);
    }
  }
  if (report) add_line(*report, run);
}

/// The numbers among the counters that a summary names, and the means of histograms; not those of single servers or
/// workers.
void add_counters(const Json& summary, RunRecord& run) {
  const auto units = summary.find("counters");
  if (units == summary.end() || !units->is_object()) return;
  for (const auto& [path, unit] : units->items()) {
    std::string pointer = "/" + path;
    std::ranges::replace(pointer, '.', '/');
    for (const std::string last : {"", "/mean"}) {
      const Json::json_pointer place(pointer + last);
      if (!summary.contains(place) || !summary.at(place).is_number()) continue;
      run.counters[path + (last.empty() ? "" : ".mean")] = summary.at(place).get<double>();
    }
  }
}

/// Where there is one, and it is of the run's last steps.
void add_summary(const std::string& folder, RunRecord& run) {
  if (!exists(folder + "/summary.json")) return;
  const Json json = read_summary(folder);
  if (!json.contains("status")) fail_run(run.folder, "its summary.json is damaged");
  run.ranks = static_cast<int>(integer(json, "ranks"));
  run.threads = static_cast<int>(integer(json, "threads"));
  const std::int64_t steps = integer(json, "steps");
  if (steps < run.steps) return;  // it went on afterwards
  run.status = json.value("status", "");
  run.steps = steps;
  run.epochs = integer(json, "epochs");
  run.examples_per_second = json.value("examples_per_second", 0.0);
  run.metrics.clear();
  for (const char* split : kSplitNames) {
    if (const auto found = json.find(split); found != json.end()) add_metrics(*found, split, run);
  }
  add_counters(json, run);
}

}  // namespace

std::string RunRecord::seed() const {
  const auto found = config.find("seed");
  return found == config.end() ? "" : found->second;
}

RunRecord read_run(const std::string& folder) {
  if (!exists(folder)) fail_run(folder, "there is no such run; name a run folder");
  if (!holds_run(folder)) fail_run(folder, "is not a run folder: it has no config.toml with checkpoints or metrics");
  RunRecord run;
  run.folder = folder;
  run.status = "unfinished";
  run.config = config_entries(read_text_file(folder + "/config.toml"));
  if (!run.config.contains("name") || !run.config.contains("model.kind"))
    fail_run(folder, "its config.toml is damaged");
  add_metrics_log(folder, run);
  add_summary(folder, run);
  if (is_locked(folder + "/.lock")) run.status = "running";
  return run;
}

}  // namespace unisono::records
