#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/records/tensorboard_log.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::records {

/// {"loss": 0.1, "accuracy": 0.9}; values that are not finite become null.
nlohmann::ordered_json to_json(const std::vector<models::Metric>& metrics);
/// {"total": …, "compute": …, …}
nlohmann::ordered_json to_json(const parallel::Seconds& seconds);

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
