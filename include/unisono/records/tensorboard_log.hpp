#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace unisono::records {

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
  /// Opens the file in this folder, which it creates, and removes events after `step`, because a resumed run makes
  /// those steps again. \throws OutputError
  TensorboardLog(const std::string& folder, std::int64_t step);

  /// Writes each number of a line of metrics.jsonl: "train/loss", "validation/accuracy", "train/seconds/compute".
  /// \throws OutputError
  void write(const nlohmann::ordered_json& line);

 private:
  void write_record(const std::string& event);

  std::string path_;
  std::ofstream file_;
};

}  // namespace unisono::records
