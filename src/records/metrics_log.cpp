#include "unisono/records/metrics_log.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/gone_folder.hpp"
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

nlohmann::ordered_json to_json(const parallel::Seconds& seconds) {
  return {{"total", seconds.sum()},
          {"compute", seconds.compute},
          {"exposed_communication", seconds.exposed_communication},
          {"straggler_wait", seconds.straggler_wait},
          {"bubble", seconds.bubble},
          {"input", seconds.input},
          {"optimizer", seconds.optimizer},
          {"evaluation", seconds.evaluation},
          {"checkpoint", seconds.checkpoint},
          {"other", seconds.other}};
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

}  // namespace unisono::records
