#include "unisono/records/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/nesting.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::records {
namespace {

constexpr std::size_t kHashDigits = 16;

std::string hash_of(const std::string& last, std::string_view text) {
  return fmt::format("{:016x}", hash_bytes(fmt::format("{}{}", last, text)));
}

std::string read_all(int descriptor) {
  std::string text;
  char part[1 << 16];
  for (;;) {
    const ssize_t count = ::read(descriptor, part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part, static_cast<std::size_t>(count));
  }
}

/// Takes the entries of all whole lines. \param last_hash of the last one \return where the last of them ends
std::size_t parse(const std::string& text, const std::string& path, std::vector<nlohmann::json>& entries,
                  std::string& last_hash) {
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line(text.data() + begin, end - begin);
    const bool is_long = line.size() > kHashDigits + 1 && line[kHashDigits] == ' ';
    const std::string hash = is_long ? hash_of(last_hash, line.substr(kHashDigits + 1)) : "";
    if (!is_long || line.substr(0, kHashDigits) != hash) {
      throw CheckpointError(
          fmt::format("{}:{}: this line was changed since it was written, or lines before it are missing; begin anew "
                      "with --overwrite, or remove the lines from there on to lose only these",
                      path, entries.size() + 1));
    }
    entries.push_back(nlohmann::json::parse(shallow_json(line.substr(kHashDigits + 1), path)));
    last_hash = hash;
  }
  return begin;
}

/// JSON has no numbers that are not finite: these become texts.
nlohmann::json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_from(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto& text = value.get_ref<const std::string&>();
  return text == "inf" ? infinite : text == "-inf" ? -infinite : std::numeric_limits<double>::quiet_NaN();
}

template <typename Enum>
Enum value_called(const std::string& name, NamesOf<Enum> names) {
  for (const auto& one : names) {
    if (one.name == name) return one.value;
  }
  throw nlohmann::json::other_error::create(501, "unknown name '" + name + "'", nullptr);
}

data::Split split_called(const std::string& name) {
  for (const data::Split split : data::kSplits) {
    if (data::name_of(split) == name) return split;
  }
  throw nlohmann::json::other_error::create(501, "unknown split '" + name + "'", nullptr);
}

}  // namespace

std::vector<nlohmann::json> read_journal(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw CheckpointError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  const std::string text = read_all(descriptor);
  ::close(descriptor);
  std::vector<nlohmann::json> entries;
  std::string last_hash;
  parse(text, path, entries, last_hash);
  return entries;
}

Journal::Journal(std::string path, bool anew)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)),
      entries_(std::make_unique<std::vector<nlohmann::json>>()) {
  if (descriptor_ < 0) fail("cannot be opened");
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw OutputError(path_ +
                        ": another process is writing it; wait for that, or choose another folder with --output");
    }
    if (anew && ::ftruncate(descriptor_, 0) != 0) fail("cannot be shortened");
    read();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

Journal::~Journal() { ::close(descriptor_); }

void Journal::read() {
  const std::string text = read_all(descriptor_);
  const std::size_t end = parse(text, path_, *entries_, last_hash_);
  if (end < text.size() && ::ftruncate(descriptor_, static_cast<off_t>(end)) != 0) fail("cannot be shortened");
}

void Journal::append(const nlohmann::json& entry) {
  const std::string text = entry.dump(), hash = hash_of(last_hash_, text), line = hash + " " + text + "\n";
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("cannot be written");
    done += static_cast<std::size_t>(count);
  }
  last_hash_ = hash;
}

void Journal::fail(const std::string& what) const {
  const int error = errno;
  throw OutputError(fmt::format("{}: {}: {}; {}, or choose another folder with --output", path_, what,
                                std::strerror(error), advice_on(error)));
}

std::string TrialRun::text() const {
  const std::string where = is_nested() ? fmt::format("outer fold {}, ", outer) : "";
  if (refit) return where + fmt::format("trial {} once more", trial);
  return where + fmt::format("trial {}", trial) + (repeat > 0 ? fmt::format(", repeat {}", repeat) : "") +
         (fold >= 0 ? fmt::format(", fold {}", fold) : "");
}

double TrialResult::loss() const {
  if (status != TrialStatus::complete || std::isnan(value)) return std::numeric_limits<double>::infinity();
  return larger_is_better ? -value : value;
}

nlohmann::json to_json(const TrialRun& training) {
  nlohmann::json made = {{"trial", training.trial}};
  if (training.repeat != 0) made["repeat"] = training.repeat;
  if (training.outer >= 0) made["outer"] = training.outer;
  if (training.fold >= 0) made["fold"] = training.fold;
  if (training.epochs > 0) made["epochs"] = training.epochs;
  if (training.copied) made["copied"] = *training.copied;
  if (training.refit) made["refit"] = true;
  return made;
}

TrialRun trial_run_from(const nlohmann::json& json) {
  TrialRun training;
  training.trial = json.at("trial").get<std::int64_t>();
  training.repeat = json.value("repeat", std::int64_t{0});
  training.outer = json.value("outer", std::int64_t{-1});
  training.fold = json.value("fold", std::int64_t{-1});
  training.epochs = json.value("epochs", std::int64_t{0});
  training.refit = json.value("refit", false);
  if (json.contains("copied")) training.copied = json.at("copied").get<std::int64_t>();
  return training;
}

nlohmann::json to_json(const TrialTask& task) {
  return {{"training", to_json(task.run)}, {"overrides", task.overrides}, {"folder", task.folder},
          {"goes_on", task.goes_on},       {"outputs", task.outputs},     {"takes_over", task.takes_over}};
}

TrialTask task_from(const nlohmann::json& json) {
  return {.run = trial_run_from(json.at("training")),
          .overrides = json.at("overrides"),
          .folder = json.at("folder"),
          .goes_on = json.at("goes_on"),
          .outputs = json.at("outputs"),
          .takes_over = json.at("takes_over")};
}

nlohmann::json to_json(const TrialResult& result) {
  nlohmann::json metrics = nlohmann::json::array();
  for (const MeasuredMetric& metric : result.metrics) {
    metrics.push_back({data::name_of(metric.split), metric.name, number(metric.value), metric.larger_is_better});
  }
  nlohmann::json json = {{"status", name_of(result.status, kTrialStatuses)},
                         {"message", result.message},
                         {"value", number(result.value)},
                         {"larger_is_better", result.larger_is_better},
                         {"metrics", metrics},
                         {"epochs", result.epochs},
                         {"steps", result.steps},
                         {"kept_epochs", result.kept_epochs},
                         {"seconds", result.seconds}};
  if (!result.short_of_convergence.empty()) json["short_of_convergence"] = result.short_of_convergence;
  return json;
}

TrialResult result_from(const nlohmann::json& json) {
  TrialResult result;
  result.status = value_called<TrialStatus>(json.at("status").get<std::string>(), kTrialStatuses);
  result.message = json.at("message").get<std::string>();
  result.value = number_from(json.at("value"));
  result.larger_is_better = json.at("larger_is_better").get<bool>();
  for (const auto& metric : json.at("metrics")) {
    result.metrics.push_back({split_called(metric.at(0).get<std::string>()), metric.at(1).get<std::string>(),
                              number_from(metric.at(2)), metric.at(3).get<bool>()});
  }
  result.epochs = json.at("epochs").get<std::int64_t>();
  result.steps = json.at("steps").get<std::int64_t>();
  result.kept_epochs = json.at("kept_epochs").get<std::int64_t>();
  result.seconds = json.at("seconds").get<double>();
  result.short_of_convergence = json.value("short_of_convergence", "");
  return result;
}

}  // namespace unisono::records
