#include "unisono/strategies/events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "unisono/base/errors.hpp"

namespace unisono::strategies {

std::vector<std::byte> encode(std::span<const ServerEvent> events) {
  std::vector<std::byte> bytes;
  bytes.reserve(events.size());
  for (const ServerEvent& event : events) {
    auto left = 2 * static_cast<unsigned>(event.worker) + (event.is_push ? 1U : 0U);
    for (; left >= 128; left >>= 7) bytes.push_back(static_cast<std::byte>(left | 128));
    bytes.push_back(static_cast<std::byte>(left));
  }
  return bytes;
}

std::vector<ServerEvent> decode(std::span<const std::byte> bytes) {
  std::vector<ServerEvent> events;
  unsigned value = 0, shift = 0;
  for (const std::byte byte : bytes) {
    value |= (static_cast<unsigned>(byte) & 127U) << shift;
    shift += 7;
    if ((static_cast<unsigned>(byte) & 128U) != 0 && shift < 28) continue;
    events.push_back({static_cast<int>(value / 2), value % 2 != 0});
    value = shift = 0;
  }
  if (shift != 0) throw std::out_of_range("the last event has no end");
  return events;
}

const RecordedSegment& EventRecord::segment_at(std::int64_t first) const {
  const auto found = std::ranges::find(segments, first, &RecordedSegment::first);
  if (found != segments.end()) return *found;
  throw CheckpointError(fmt::format("the record has no steps from {} on, because it ends before the run", first));
}

}  // namespace unisono::strategies
