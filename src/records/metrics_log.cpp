#include "unisono/records/metrics_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::records {
namespace {

/// The lines whose step is at most `step`. A last line that was cut short is dropped, too.
std::string lines_until(const std::string& text, std::int64_t step) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", step + 1) <= step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

nlohmann::ordered_json to_json(const std::vector<models::Metric>& metrics) {
  auto json = nlohmann::ordered_json::object();
  for (const models::Metric& metric : metrics) json[metric.name] = metric.value;
  return json;
}

bool is_report_field(std::string_view name) {
  static constexpr std::string_view kFields[] = {
      "step",        "epoch",     "learning_rate",      "examples_per_second", "gradient_norm",    "parameter_norm",
      "seconds",     "objective", "gradient_magnitude", "evaluations",         "hessian_products", "hessians",
      "step_length", "passes",    "weights_of_step",    "steps_per_epoch"};
  return std::ranges::find(kFields, name) != std::end(kFields);
}

MetricsLog::MetricsLog(std::string path, std::int64_t step) : path_(std::move(path)) {
  if (std::filesystem::is_regular_file(path_)) write_text_file(path_, lines_until(read_text_file(path_), step));
  file_.open(path_, std::ios::app);
}

void MetricsLog::write(const nlohmann::ordered_json& line) {
  errno = 0;
  file_ << line.dump() << std::endl;
  if (!file_) {
    throw OutputError(fmt::format("{}: cannot be written: {}; {}", path_, std::strerror(errno),
                                  advice_about(path_, "free some space and continue with --resume")));
  }
  if (tensorboard_) tensorboard_->write(line);
}

nlohmann::ordered_json MetricsLine::fields() const {
  auto fields = nlohmann::ordered_json::parse(text_, nullptr, /*allow_exceptions=*/false);
  return fields.is_object() ? fields : nlohmann::ordered_json::object();
}

MetricsReader::MetricsReader(const std::string& run_folder) : path_(run_folder + "/metrics.jsonl") {}

std::optional<MetricsLine> MetricsReader::next() {
  if (!file_.is_open()) file_.open(path_);
  std::string line;
  const std::streampos begin = file_.tellg();
  std::getline(file_, line);
  if (!file_.eof() && !file_.fail()) return MetricsLine(std::move(line));
  if (file_.is_open()) {  // the line may be complete at the next call
    file_.clear();
    file_.seekg(begin);
  }
  return std::nullopt;
}

nlohmann::ordered_json read_summary(const std::string& run_folder) {
  auto summary = nlohmann::ordered_json::parse(std::ifstream(run_folder + "/summary.json"), nullptr,
                                               /*allow_exceptions=*/false);
  return summary.is_object() ? summary : nlohmann::ordered_json::object();
}

}  // namespace unisono::records
