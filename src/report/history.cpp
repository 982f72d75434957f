#include "history.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "texts.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostOfLog = 64 << 10;

/// Every number of an object and of the objects inside it, by its path: "seconds.compute".
void add_numbers(const Json& object, const std::string& path, double step, std::map<std::string, Curve>& curves) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) add_numbers(value, path + name + ".", step, curves);
    if (!value.is_number() && !value.is_null()) continue;
    Curve& curve = curves[path + name];
    curve.steps.push_back(step);
    curve.values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
}

void add_line(const records::MetricsLine& line, RunHistory& run) {
  const Json json = line.fields();
  if (!json.contains("step") || !json["step"].is_number()) return;
  const double step = json["step"].get<double>();
  const bool evaluated = json.value("event", "") == "evaluation";
  const double epoch = number_in(json, "epoch");
  if (const double known = number_in(json, "steps_per_epoch"); known > 0) {
    run.steps_per_epoch = known;
  } else if (evaluated && epoch > 0 && run.steps_per_epoch == 0) {
    run.steps_per_epoch = step / epoch;  // evaluations are at the ends of epochs
  }
  add_numbers(json, (evaluated ? json.value("split", "test") : "train") + " ", step, run.curves);
}

std::string last_part(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(0, file.tellg()));
  const std::size_t taken = std::min(size, kMostOfLog);
  std::string text(taken, '\0');
  file.seekg(static_cast<std::streamoff>(size - taken));
  file.read(text.data(), static_cast<std::streamsize>(taken));
  return taken < size ? text.substr(text.find('\n') + 1) : text;
}

}  // namespace

const Curve& RunHistory::curve(const std::string& name) const {
  static const Curve kNone;
  const auto found = curves.find(name);
  return found == curves.end() ? kNone : found->second;
}

std::vector<std::string> RunHistory::metrics() const {
  std::set<std::string> names;
  for (const auto& [path, curve] : curves) {
    const std::string name = path.substr(path.find(' ') + 1);
    if (models::is_metric(name) && name.find('.') == std::string::npos) names.insert(name);
  }
  std::vector<std::string> ordered;
  if (names.erase("loss") > 0) ordered.emplace_back("loss");
  ordered.insert(ordered.end(), names.begin(), names.end());
  return ordered;
}

std::vector<double> RunHistory::epochs_of(const std::vector<double>& steps) const {
  std::vector<double> epochs = steps;
  if (steps_per_epoch > 0) {
    for (double& step : epochs) step /= steps_per_epoch;
  }
  return epochs;
}

std::string RunHistory::name() const {
  const std::string last = std::filesystem::path(record.folder).filename().string();
  return last.empty() || last == "." || last == ".." ? record.folder : last;
}

RunHistory read_history(const std::string& folder) {
  RunHistory run;
  run.record = records::read_run(folder);
  run.config = records::read_text_file(records::config_of(folder));
  run.log = last_part(folder + "/log.txt");
  run.summary = records::read_summary(folder);
  records::MetricsReader reader(folder);
  while (const auto line = reader.next()) add_line(*line, run);
  return run;
}

}  // namespace unisono::report
