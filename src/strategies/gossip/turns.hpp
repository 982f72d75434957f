#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "server/event_order.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::strategies {

/// The turns of a rank's threads at its θ_r: one at a time, in the order in which they come or as a record says.
class Turns {
 public:
  /// Begins a segment, before its threads do.
  void begin(EventOrder order) { order_ = std::move(order); }
  /// The order of the segment; after its threads have ended.
  const EventOrder& order() const { return order_; }

  bool may_be_next(const ServerEvent& event) const {
    const std::lock_guard lock(mutex_);
    return has_ended_ || order_.may_be_next(event);
  }
  /// Blocks until it is this event's turn. \return the turn, which lasts as long as this lock
  /// \throws PeerFailure after `end`
  [[nodiscard]] std::unique_lock<std::mutex> take(const ServerEvent& event) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_ended_ || order_.may_be_next(event); });
    if (has_ended_) throw comm::PeerFailure("another thread of this rank failed");
    order_.record_or_follow(event);
    changed_.notify_all();
    return lock;
  }
  /// Nobody gets a turn any more, because a thread of this rank failed.
  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  EventOrder order_;
  bool has_ended_ = false;
};

}  // namespace unisono::strategies
