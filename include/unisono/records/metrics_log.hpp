#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/records/counters_json.hpp"
#include "unisono/records/tensorboard_log.hpp"

namespace unisono::records {

/// {"loss": 0.1, "accuracy": 0.9}; values that are not finite become null.
nlohmann::ordered_json to_json(const std::vector<models::Metric>& metrics);

/// Whether a number of a line of metrics.jsonl is one that runs write themselves: a step, a rate, a norm, what a method
/// for the whole training set has done. All others are metrics of the model, or counters.
bool is_report_field(std::string_view name);

/// Writes metrics.jsonl: one JSON object per line, flushed line by line.
class MetricsLog {
 public:
  /// Opens the file and removes the lines after `step`, because a resumed run makes those steps again. \throws
  /// OutputError
  MetricsLog(std::string path, std::int64_t step);
  /// \throws OutputError
  void write(const nlohmann::ordered_json& line);
  /// Lines are also written for TensorBoard from now on.
  void add(TensorboardLog tensorboard) { tensorboard_ = std::move(tensorboard); }

 private:
  std::string path_;
  std::ofstream file_;
  std::optional<TensorboardLog> tensorboard_;
};

}  // namespace unisono::records
