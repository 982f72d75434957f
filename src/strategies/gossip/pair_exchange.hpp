#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "gossip/turns.hpp"
#include "unisono/parallel/common_fate.hpp"
#include "unisono/tensor/allocator.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::strategies {

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

}  // namespace unisono::strategies
