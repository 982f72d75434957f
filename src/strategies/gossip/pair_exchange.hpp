#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "server/event_order.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/parallel/common_fate.hpp"
#include "unisono/tensor/allocator.hpp"
#include "unisono/tensor/layout.hpp"

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

/// What a rank that begins exchanges says to one that answers.
enum class Call : std::int32_t { exchange, leave };

/// Averages vectors of two ranks. Used by one thread of a rank at a time.
class PairExchange {
 public:
  /// \param ranks, fate must outlive this object \param segments of the vectors: what is averaged
  PairExchange(comm::Communicator& ranks, parallel::CommonFate& fate, std::vector<FloatRange> segments);

  /// Begins an exchange with a rank that answers, or tells it that this rank begins no more of them.
  void call(int peer, Call call);
  /// own ← (own + theirs) / 2 on the segments, where `theirs` is the peer's, in plain memory. Called by both ranks of
  /// the pair, which end with the same bits.
  void average(MutableView own, int peer);
  /// Answers: calls exchange(peer) for one call after the other, in an order that `turns` allows, until all these peers
  /// have left.
  void answer(const std::vector<int>& peers, const Turns& turns, const std::function<void(int peer)>& exchange);

  std::int64_t sent_bytes() const { return sent_bytes_; }  ///< of parameters, since this object was made

  /// Bytes of buffers for vectors of so many floats.
  static std::int64_t extra_bytes(Index floats);

 private:
  /// Room for a piece under way.
  struct Slot {
    Buffer theirs;
    comm::RequestPtr sent, received;
  };

  void begin(MutableView own, int peer, Slot& slot);
  void complete(MutableView own, Slot& slot);

  comm::Communicator& ranks_;
  parallel::CommonFate& fate_;
  std::vector<FloatRange> pieces_;
  std::array<Slot, 2> slots_;
  std::int64_t sent_bytes_ = 0;
};

/// Messages that are awaited together, each with a number that says what it is.
class Waits {
 public:
  void add(comm::RequestPtr request, std::size_t number) { all_.push_back({std::move(request), number}); }
  bool empty() const { return all_.empty(); }
  /// Blocks until at least one is done or `enough()`, as CommonFate::wait_any. \return the numbers of those that are
  /// done, which are awaited no more
  std::vector<std::size_t> finish_some(parallel::CommonFate& fate, const std::function<bool()>& enough = {}) {
    std::vector<comm::Request*> requests;
    for (const One& one : all_) requests.push_back(one.request.get());
    std::vector<std::size_t> numbers;
    for (const std::size_t i : fate.wait_any(requests, enough)) {
      std::exchange(all_[i].request, nullptr)->wait();
      numbers.push_back(all_[i].number);
    }
    std::erase_if(all_, [](const One& one) { return one.request == nullptr; });
    return numbers;
  }

 private:
  struct One {
    comm::RequestPtr request;
    std::size_t number;
  };
  std::vector<One> all_;
};

/// Which even ranks exchange with which odd ones.
enum class PairTopology {
  complete,  ///< each with all
  ring  ///< with the ranks before and after it; on an odd number of ranks it is open between the last and the first
};

/// The pairs of ranks that average their parameters. Even ranks begin exchanges, and odd ones answer.
class Pairs {
 public:
  Pairs(PairTopology topology, int ranks) : topology_(topology), ranks_(ranks) {}

  static bool begins(int rank) { return rank % 2 == 0; }
  /// Those with whom a rank may exchange, ascending; empty where there is one rank.
  std::vector<int> partners_of(int rank) const;
  /// With whom an even rank exchanges in its own step: each partner with equal probability, independently of all other
  /// draws. There must be two ranks or more.
  int partner(std::uint64_t seed, int rank, std::int64_t step) const;

 private:
  PairTopology topology_;
  int ranks_;
};

}  // namespace unisono::strategies
