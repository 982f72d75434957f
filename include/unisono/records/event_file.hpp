#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "unisono/strategies/events.hpp"

namespace unisono::records {

// The format of events.bin, a run's record of events (strategies/events.hpp). The file begins with
// "unisono-events-1\n"; sections follow, each of
//   8 bytes   length of the section's content, n (all numbers little-endian)
//   n bytes   content
//   8 bytes   hash of the content (xxh3)
// The first section's content is an EventFileHeader as JSON. Each other section is a segment: its first and last step
// (8 bytes each), and for each server the length of its encoded events (8 bytes) and these; without servers, for each
// worker.

/// What a replay must have in common with the recorded run.
struct EventFileHeader {
  int workers = 0, servers = 0;
  int threads = 1;
  std::string device;
  std::uint64_t data_identity = 0, build = 0, layout = 0;
  std::int64_t schedule_steps = 0;  ///< length of the learning-rate schedule; 0: it is constant
  std::string config;               ///< the effective config
};

/// Writes a run's events to a file, segment by segment. Used on rank 0.
class EventFile final : public strategies::EventRecorder {
 public:
  /// Creates a new file. \throws OutputError
  EventFile(std::string path, const EventFileHeader& header);
  /// Opens an existing file to continue after the segment that ends with step `step`. \throws CheckpointError if there
  /// is no such segment
  EventFile(std::string path, std::int64_t step);
  void add(const strategies::RecordedSegment& segment) override;

 private:
  void write_section(const std::string& content);

  std::string path_;
  std::ofstream file_;
};

/// The recorder that strategies call on all ranks; rank 0 writes the events to a file.
class RunEvents final : public strategies::EventRecorder {
 public:
  /// Opens the file; called on rank 0 only. \param step the step at which the run is resumed; 0: a new run
  /// \throws ConfigError if the existing record has other roles or another schedule; CheckpointError if it ends before
  /// the step
  void open(const std::string& path, const EventFileHeader& header, std::int64_t step);
  void add(const strategies::RecordedSegment& segment) override;

 private:
  std::optional<EventFile> file_;
};

/// Reads the header of events.bin. \throws CheckpointError for a file that is missing or damaged
EventFileHeader read_event_header(const std::string& path);
/// Reads all segments of events.bin. \throws CheckpointError for a file that is missing or damaged
strategies::EventRecord read_events(const std::string& path);

}  // namespace unisono::records
