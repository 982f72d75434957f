#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "unisono/strategies/events.hpp"

namespace unisono::experiment {

// events.bin, a run's record of its servers' events: "unisono-events-1\n", then sections of
//   8 bytes   length of the section's content, n (all numbers little-endian)
//   n bytes   content
//   8 bytes   hash of the content (xxh3)
// The content of the first one is JSON, an EventFileHeader. Each other one is a segment: its first and last step (8
// bytes each), and for each server the length of its events (8 bytes) and these, encoded.

/// What a run must have in common with one that repeats it.
struct EventFileHeader {
  int workers = 0, servers = 0;
  int threads = 1;
  std::string device;
  std::uint64_t data_identity = 0, build = 0, layout = 0;
  std::int64_t schedule_steps = 0;  ///< that the learning rate's schedule spans; 0: it is constant
  std::string config;               ///< effective
};

/// Writes a run's events, a segment at a time. For rank 0.
class EventFile final : public strategies::EventRecorder {
 public:
  /// A new file. \throws OutputError
  EventFile(std::string path, const EventFileHeader& header);
  /// Goes on behind the segment that ends with this step. \throws CheckpointError where the file has none
  EventFile(std::string path, std::int64_t step);
  void add(const strategies::RecordedSegment& segment) override;

 private:
  void write_section(const std::string& content);

  std::string path_;
  std::ofstream file_;
};

/// The events of a run, which all ranks tell alike and rank 0 writes down.
class RunEvents final : public strategies::EventRecorder {
 public:
  /// On rank 0. \param step at which the run is resumed; 0: it begins
  /// \throws ConfigError where the record was begun with other roles, or another schedule; CheckpointError where it
  /// does not reach the step
  void open(const std::string& path, const EventFileHeader& header, std::int64_t step);
  void add(const strategies::RecordedSegment& segment) override;

 private:
  std::optional<EventFile> file_;
};

/// \throws CheckpointError for a file that is missing or damaged
EventFileHeader read_event_header(const std::string& path);
strategies::EventRecord read_events(const std::string& path);

}  // namespace unisono::experiment
