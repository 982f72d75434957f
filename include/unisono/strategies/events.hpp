#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The order in which servers dealt with workers, of which, with the same data, build and threads, all else follows: a
// run's record (docs/parameter-server.md, "Record and replay").

namespace unisono::strategies {

/// A server answered a worker's pull, or applied its push.
struct ServerEvent {
  int worker = 0;
  bool is_push = false;
  bool operator==(const ServerEvent&) const = default;
};

/// A byte an event where there are no more than 64 workers: 2 · worker + push, seven bits a byte, the lowest first; all
/// bytes of an event but the last one have the eighth bit.
std::vector<std::byte> encode(std::span<const ServerEvent> events);
/// \throws std::out_of_range for bytes that end within an event
std::vector<ServerEvent> decode(std::span<const std::byte> bytes);

/// The steps of a run between two meetings of all ranks.
struct RecordedSegment {
  std::int64_t first = 0, last = 0;               ///< of the run's steps
  std::vector<std::vector<std::byte>> by_server;  ///< encoded
};

/// Takes a run's events down.
class EventRecorder {
 public:
  virtual ~EventRecorder() = default;
  /// At the end of a segment; on all ranks alike.
  virtual void add(const RecordedSegment& segment) = 0;
};

/// A run whose order is to be repeated.
struct EventRecord {
  std::vector<RecordedSegment> segments;
};

}  // namespace unisono::strategies
