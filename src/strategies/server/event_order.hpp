#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "unisono/strategies/events.hpp"

namespace unisono::strategies {

/// The order in which a server handles pulls and pushes, or a rank applies updates: recorded as it happens, or
/// prescribed by a record.
class EventOrder {
 public:
  /// Records the order.
  EventOrder() = default;
  /// Prescribes this order.
  explicit EventOrder(std::vector<ServerEvent> events) : events_(std::move(events)), is_given_(true) {}

  bool is_given() const { return is_given_; }
  /// The next event of a given order; none after the last one.
  std::optional<ServerEvent> next() const {
    return next_ < events_.size() ? std::optional(events_[next_]) : std::nullopt;
  }
  bool may_be_next(const ServerEvent& event) const {
    return !is_given_ || (next_ < events_.size() && events_[next_] == event);
  }
  /// Called when the server handles this event.
  void record_or_follow(const ServerEvent& event) {
    if (!is_given_) events_.push_back(event);
    ++next_;
  }
  const std::vector<ServerEvent>& events() const { return events_; }

 private:
  std::vector<ServerEvent> events_;
  bool is_given_ = false;
  std::size_t next_ = 0;
};

/// Steps of the run between two points at which all ranks synchronise.
struct Segment {
  std::int64_t first = 0, last = 0;  ///< of the run's steps
  int active = 1;                    ///< workers 0 … active − 1 take part
  /// Steps of each active worker. Asynchronous workers make active · steps together, and who asks first makes more.
  std::int64_t steps = 0;

  /// The run's step, for the learning-rate schedule, that corresponds to a worker's step number `clock` in this
  /// segment.
  std::int64_t step_at(std::int64_t clock) const {
    return first + std::min(clock * (last - first) / steps, last - first - 1);
  }
};

}  // namespace unisono::strategies
