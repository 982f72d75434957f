#include "unisono/records/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/file_pattern.hpp"
#include "unisono/base/nesting.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/journal.hpp"
#include "unisono/records/metrics_log.hpp"

namespace unisono::records {
namespace {

namespace fs = std::filesystem;

constexpr std::array kResults = {"config.toml",     "data.json",     "dictionary.h5",   "metrics.jsonl",
                                 "summary.json",    "log.txt",       "checkpoints",     "events.bin",
                                 "replay",          "tensorboard",   "report.html",     "failures.json",
                                 "prediction.json", "timeline.json", "gradients.jsonl", "messages.jsonl"};

constexpr std::array kMadeEmpty = {"log.txt", "checkpoints"};

/// Whether there is more than what a run leaves that failed at its start.
bool holds_results(const std::string& path) {
  std::error_code error;
  for (const std::string_view name : kResults) {
    const fs::path result = fs::path(path) / name;
    const bool may_be_empty = std::find(kMadeEmpty.begin(), kMadeEmpty.end(), name) != kMadeEmpty.end();
    if (fs::exists(result, error) && !(may_be_empty && fs::is_empty(result, error))) return true;
  }
  return false;
}

[[noreturn]] void fail(const std::string& path, std::string_view what, const std::string& reason) {
  throw OutputError(
      fmt::format("{}: {}: {}; choose another folder with --output, or make this one writable", path, what, reason));
}

void require_choice(const std::string& path, Existing existing) {
  const bool results = holds_results(path);
  require_owner(path, FolderOwner::run, existing, results);
  if (results && existing == Existing::overwrite && owner_of(path) == FolderOwner::nobody) {
    throw OutputError(fmt::format(
        "{}: holds files that a run would replace, but no run; choose another folder (--output DIR)", path));
  }
}

/// Removes temporary files of a killed run. Safe, because this process holds the folder's lock.
void remove_unfinished(const std::string& path) {
  std::error_code ignored;
  for (const std::string name : kResults) fs::remove(fs::path(path) / (name + ".tmp"), ignored);
}

namespace fs = std::filesystem;

/// What messages say of an owner.
struct Words {
  std::string_view held;     ///< "{}: holds …"
  std::string_view go_on;    ///< "{}: already holds …"
  std::string_view nothing;  ///< "{}: …", where there is nothing to resume
};

Words words_of(FolderOwner owner) {
  if (owner == FolderOwner::run) {
    return {"a run", "a run; continue it (--resume), replace it (--overwrite)",
            "there is no run to resume; start one without --resume, or name its folder"};
  }
  if (owner == FolderOwner::study) {
    return {"a study", "a study; go on with it (--resume), replace it (--overwrite)",
            "there is no study to resume; start one without --resume, or name its folder"};
  }
  const std::string_view held = owner == FolderOwner::search             ? "a search"
                                : owner == FolderOwner::cross_validation ? "a cross-validation"
                                                                         : "trials";
  return {held, "trials; go on with them (--resume), replace them (--overwrite)",
          "there is nothing to resume; start without --resume, or name the folder"};
}

/// Whose trials a journal has, as its first line says.
FolderOwner owner_of_journal(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto first = nlohmann::json::parse(
      shallow_json(std::string_view(line).substr(std::min(line.size(), line.find(' '))), path), nullptr, false);
  const auto job = first.is_object() && first.contains("job") ? first.at("job") : nlohmann::json();
  return job == "search"             ? FolderOwner::search
         : job == "cross_validation" ? FolderOwner::cross_validation
                                     : FolderOwner::trials;
}

bool is_there(const std::string& folder, std::string_view name) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / name, ignored);
}

bool is_any_there(const std::string& folder, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) { return is_there(folder, name); });
}

}  // namespace

RunFolder::RunFolder(std::string path, Existing existing) : path_(std::move(path)) {
  require_utf8_folder(path_);
  require_choice(path_, existing);
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail(path_, "the run folder cannot be created", error.message());
  lock();
  try {
    require_choice(path_, existing);  // another run may have begun and ended meanwhile
    remove_unfinished(path_);
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (!holds_results(path_)) {  // the run failed at its start
    for (const char* name : kMadeEmpty) {
      if (fs::is_empty(fs::path(path_) / name, ignored)) fs::remove(fs::path(path_) / name, ignored);
    }
    fs::remove(path_ + "/.lock", ignored);
    fs::remove(path_, ignored);
  }
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::lock() {
  lock_ = ::open((path_ + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) fail(path_, "the run folder cannot be written", std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    throw OutputError(
        fmt::format("{}: another run is writing there; wait for it, or choose another folder with --output", path_));
  }
}

void RunFolder::clear() const {
  for (const char* name : kResults) {
    std::error_code error;
    fs::remove_all(fs::path(path_) / name, error);
    if (error) fail(path_, fmt::format("{} cannot be removed", name), error.message());
  }
}

namespace {

std::string place_of_data(const std::string& run_folder) { return run_folder + "/data.json"; }

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

void write_place_of_data(const std::string& run_folder, const std::string& given) {
  std::error_code ignored;
  // Links stay as they are: they may move together with the run.
  const fs::path absolute = fs::absolute(given, ignored).lexically_normal();
  const fs::path folder = fs::absolute(run_folder, ignored).lexically_normal();
  const nlohmann::ordered_json json = {{"path", given},
                                       {"absolute", absolute.string()},
                                       {"from_run_folder", absolute.lexically_relative(folder).string()}};
  write_text_file(place_of_data(run_folder), json.dump(2) + "\n");
}

std::string find_data(const std::string& run_folder, const std::string& given) {
  std::error_code ignored;
  const std::string file = place_of_data(run_folder);
  if (!is_file(file)) return given;
  const auto json = nlohmann::json::parse(shallow_json(read_text_file(file), file), nullptr, false);
  if (!json.is_object() || json.value("path", "") != given) return given;
  const std::string absolute = json.value("absolute", ""), moved = run_folder + "/" + json.value("from_run_folder", "");
  if (is_file_pattern(given) && has_files(given)) return given;
  if (fs::equivalent(given, absolute, ignored)) return given;
  const auto is_there = [](const std::string& path) { return is_file_pattern(path) ? has_files(path) : is_file(path); };
  if (is_there(absolute)) return absolute;
  return is_there(moved) ? fs::path(moved).lexically_normal().string() : given;
}

std::string try_to_write_text_file(const std::string& path, const std::string& text) {
  const std::string aside = path + ".tmp";
  errno = 0;
  std::ofstream file(aside, std::ios::binary);
  const bool opened = file.is_open();
  file << text;
  file.close();
  if (file) {
    sync_and_rename(aside, path);
    return "";
  }
  const std::string reason = std::strerror(errno);
  std::error_code ignored;
  if (opened) fs::remove(aside, ignored);
  return reason;
}

void write_text_file(const std::string& path, const std::string& text) {
  const std::string reason = try_to_write_text_file(path, text);
  if (reason.empty()) return;
  throw OutputError(fmt::format("{}: cannot be written: {}; {}", path, reason,
                                advice_about(path, "choose another folder with --output, or make this one writable")));
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw OutputError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  return {std::istreambuf_iterator<char>(file), {}};
}

FolderOwner owner_of(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(study_journal_of(folder), ignored)) return FolderOwner::study;
  if (fs::exists(trial_journal_of(folder), ignored)) return owner_of_journal(trial_journal_of(folder));
  const bool is_run = is_any_there(folder, {".lock", "metrics.jsonl", "summary.json"}) ||
                      (is_there(folder, "config.toml") && is_there(folder, "checkpoints"));
  return is_run ? FolderOwner::run : FolderOwner::nobody;
}

bool holds_run(const std::string& folder) {
  return is_there(folder, "config.toml") && is_any_there(folder, {"checkpoints", "metrics.jsonl"}) &&
         owner_of(folder) == FolderOwner::run;
}

void require_owner(const std::string& folder, FolderOwner mine, Existing existing, bool has_results) {
  const FolderOwner owner = owner_of(folder);
  const bool is_mine = owner == mine || (makes_trials(owner) && makes_trials(mine));
  if (owner != FolderOwner::nobody && !is_mine) {
    throw OutputError(fmt::format("{}: holds {}; choose another folder (--output DIR)", folder, words_of(owner).held));
  }
  if (has_results && existing == Existing::refuse) {
    throw OutputError(
        fmt::format("{}: already holds {}, or choose another folder (--output DIR)", folder, words_of(mine).go_on));
  }
  if (!has_results && existing == Existing::resume) {
    throw CheckpointError(fmt::format("{}: {} with --output DIR", folder, words_of(mine).nothing));
  }
}

std::map<std::string, std::string> config_entries(const std::string& effective) {
  std::map<std::string, std::string> found;
  std::istringstream lines(effective);
  std::string section, key;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const auto equals = line.find(" = ");
    if (line.front() == '[' && line.back() == ']' && equals == std::string::npos) {
      section = line.substr(1, line.size() - 2) + ".";
    } else if (line.front() != ' ' && line.front() != ']' && equals != std::string::npos) {
      key = section + line.substr(0, equals);
      found[key] = line.substr(equals + 3);
    } else {
      found[key] += line;
    }
  }
  return found;
}

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
