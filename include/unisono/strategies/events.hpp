#pragma once

#include <cstdint>
#include <span>
#include <vector>

// A run's record: the order in which parameter servers handled the workers' pulls and pushes or, where there are no
// servers, in which each rank of asynchronous gossip changed and read its parameters, or each of gradient sharing
// applied the ranks' updates. With the same data, binary and threads it determines the whole run, which can thus be
// replayed (docs/parameter-server.md, "Record and replay").

namespace unisono::strategies {

/// An event of a record: a server answered a worker's pull, or applied its push. On rank r of asynchronous gossip: the
/// rank exchanged with `worker`; with worker = r, it read its parameters for a gradient or, as a push, made the step.
/// In gradient sharing: a rank applied the worker's update.
struct ServerEvent {
  int worker = 0;
  bool is_push = false;
  bool operator==(const ServerEvent&) const = default;
};

/// Encodes events. An event is the number 2 · worker + is_push as a varint (LEB128): seven bits a byte, the lowest
/// first, and the eighth bit set in all bytes but the last. With up to 64 workers an event takes one byte.
std::vector<std::byte> encode(std::span<const ServerEvent> events);
/// Decodes what `encode` made. \throws std::out_of_range for bytes that end within an event
std::vector<ServerEvent> decode(std::span<const std::byte> bytes);

/// The events of one segment: the run's steps between two points at which all ranks synchronise.
struct RecordedSegment {
  std::int64_t first = 0, last = 0;            ///< the run's steps [first, last)
  std::vector<std::vector<std::byte>> orders;  ///< encoded events of each server; without servers, of each rank
};

/// Receives a run's events, segment by segment, and stores them.
class EventRecorder {
 public:
  virtual ~EventRecorder() = default;
  /// Called at the end of each segment, on all ranks, with the same events.
  virtual void add(const RecordedSegment& segment) = 0;
};

/// The events of a whole run, to be replayed.
struct EventRecord {
  std::vector<RecordedSegment> segments;

  /// The segment that begins at step `first`. \throws CheckpointError if there is none
  const RecordedSegment& segment_at(std::int64_t first) const;
};

}  // namespace unisono::strategies
