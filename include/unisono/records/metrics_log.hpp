#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/base/counters.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"

namespace unisono::records {

/// The counters and figures that a file shows, in their groups; a histogram is {"mean", "largest", "counts"}.
/// \param file Shown::in_metrics or Shown::in_summary
nlohmann::ordered_json to_json(CounterSet counters, Shown file);

/// The units of the counters and figures that a file shows, by their paths: {"averaged_bytes": "bytes",
/// "gossip.exchanges": ""}. They tell readers of summary.json which of its members are counters.
nlohmann::ordered_json units_json(CounterSet counters, Shown file);

/// Seconds as JSON: {"total": …, "compute": …, …}.
nlohmann::ordered_json to_json(const Seconds& seconds);
/// The seconds that `to_json` has written. A part that an older version did not measure is 0.
/// \throws nlohmann::json::exception where a part is no number
Seconds seconds_from(const nlohmann::json& json);

// Files of events that TensorBoard reads. A file is a list of records (TFRecord), each of
//   8 bytes   length of the content, n (all numbers little-endian)
//   4 bytes   masked checksum of these 8 bytes
//   n bytes   content: a protobuf message `Event`
//   4 bytes   masked checksum of the content
// The first event says "brain.Event:2"; each other one has a time, a step and scalars with their tags
// (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto).

/// CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);

/// Writes a run's numbers for TensorBoard, flushed line by line. Used on rank 0.
class TensorboardLog {
 public:
  /// Opens the file in a folder, which is created, and removes events after `step`, because a resumed run makes those
  /// steps again. \throws OutputError
  TensorboardLog(const std::string& folder, std::int64_t step);

  /// Writes each number of a line of metrics.jsonl: "train/loss", "validation/accuracy", "train/seconds/compute".
  /// \throws OutputError
  void write(const nlohmann::ordered_json& line);

 private:
  void write_record(const std::string& event);

  std::string path_;
  std::ofstream file_;
};

/// Metrics as JSON: {"loss": 0.1, "accuracy": 0.9}; values that are not finite become null.
nlohmann::ordered_json to_json(const std::vector<models::Metric>& metrics);

/// A metric's value with so many digits; for NaN "undefined".
std::string metric_text(double value, int digits);

/// A metric as people write it: "accuracy", "validation.accuracy" or "validation accuracy".
/// \return the split, if it is named, and the metric's name
std::pair<std::optional<data::Split>, std::string> split_and_metric(const std::string& text);

/// Whether a number of a line of metrics.jsonl is one that runs write themselves: a step, a rate, a norm, what a method
/// for the whole training set has done. All others are metrics of the model, or counters.
bool is_report_field(std::string_view name);

/// Writes metrics.jsonl: one JSON object per line, flushed line by line.
class MetricsLog {
 public:
  /// Opens the file and removes the lines after `step`, because a resumed run makes those steps again.
  /// \param evaluated false: the resumed run also makes the evaluations after step `step` again, and their lines are
  /// removed. \throws OutputError
  MetricsLog(std::string path, std::int64_t step, bool evaluated = true);
  /// Writes a line. \throws OutputError
  void write(const nlohmann::ordered_json& line);
  /// Writes lines for TensorBoard, too, from now on.
  void add(TensorboardLog tensorboard) { tensorboard_ = std::move(tensorboard); }

 private:
  std::string path_;
  std::ofstream file_;
  std::optional<TensorboardLog> tensorboard_;
};

/// A line of metrics.jsonl: a report on steps of training, or an evaluation of a split.
class MetricsLine {
 public:
  explicit MetricsLine(std::string text) : text_(std::move(text)) {}

  /// Whether the line is a report on steps of training; told by its text, since runs with many reports are read much
  /// faster where only some are parsed.
  bool is_report() const { return text_.find("\"event\":\"train\"") != std::string::npos; }
  /// The line as JSON; an empty object where it is damaged.
  nlohmann::ordered_json fields() const;

 private:
  std::string text_;
};

/// Reads metrics.jsonl of a run's folder, also while the run goes on. For searches, pages, tables and `watch` alike.
class MetricsReader {
 public:
  explicit MetricsReader(const std::string& run_folder);
  /// The next line; nothing where there is none yet. A last line without its end was cut short, or is being written.
  std::optional<MetricsLine> next();

 private:
  std::string path_;
  std::ifstream file_;
};

/// The JSON object in a file; an empty one where there is none, or it is damaged.
nlohmann::ordered_json read_object(const std::string& path);
/// A run's summary.json; an empty object where there is none, or it is damaged.
nlohmann::ordered_json read_summary(const std::string& run_folder);

}  // namespace unisono::records
