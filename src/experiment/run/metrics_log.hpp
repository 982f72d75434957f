#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::experiment {

/// {"loss": 0.1, "accuracy": 0.9}; what is not finite becomes null.
nlohmann::ordered_json to_json(const std::vector<models::Metric>& metrics);
/// {"total": …, "compute": …, …}
nlohmann::ordered_json to_json(const strategies::Seconds& seconds);

/// metrics.jsonl: one object a line, each flushed.
class MetricsLog {
 public:
  /// Goes on with the lines up to `step`; those behind it are of steps that will be made again. \throws OutputError
  MetricsLog(std::string path, std::int64_t step);
  /// \throws OutputError
  void write(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace unisono::experiment
