#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "server/event_order.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/parallel/common_fate.hpp"
#include "unisono/strategies/strategy.hpp"
#include "unisono/tensor/allocator.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::strategies {

/// The turns of a rank's threads at its θ_r: one at a time, in the order in which they come or as a record says.
class Turns {
 public:
  explicit Turns(const Runtime& runtime) : changed_(runtime) {}
  /// Begins a segment, before its threads do.
  void begin(EventOrder order) { order_ = std::move(order); }
  /// The order of the segment; after its threads have ended.
  const EventOrder& order() const { return order_; }

  bool may_be_next(const ServerEvent& event) const {
    const std::lock_guard lock(mutex_);
    return has_ended_ || order_.may_be_next(event);
  }
  /// A turn, which lasts as long as this object.
  class Turn {
   public:
    explicit Turn(Turns& turns) : turns_(turns) {}
    ~Turn() { turns_.give_back(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
  };
  /// Blocks until it is this event's turn. \throws PeerFailure after `end`
  [[nodiscard]] Turn take(const ServerEvent& event) {
    std::unique_lock lock(mutex_);
    const auto place = waiting_.insert(waiting_.end(), event);
    changed_.wait(lock, [&] { return has_ended_ || (!is_taken_ && next() == place); });
    waiting_.erase(place);
    if (has_ended_) throw comm::PeerFailure("another thread of this rank failed");
    order_.record_or_follow(event);
    is_taken_ = true;
    return Turn(*this);
  }
  /// Nobody gets a turn any more, because a thread of this rank failed.
  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

 private:
  /// Who has waited for the longest time of those that may be next.
  std::list<ServerEvent>::iterator next() {
    return std::ranges::find_if(waiting_, [&](const ServerEvent& event) { return order_.may_be_next(event); });
  }
  void give_back() {
    const std::lock_guard lock(mutex_);
    is_taken_ = false;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  Condition changed_;
  EventOrder order_;
  std::list<ServerEvent> waiting_;  ///< in the order in which they came
  bool is_taken_ = false, has_ended_ = false;
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

/// Which even ranks exchange with which odd ones.
enum class PairTopology {
  complete,  ///< each with all
  ring  ///< with the ranks before and after it; on an odd number of ranks it is open between the last and the first
};

/// The pairs of ranks that average their parameters, an even and an odd one each. Who begins an exchange waits for it,
/// and makes fewer steps where steps are short: in the first epoch even ranks begin and odd ones answer, in the second
/// odd ranks begin, and so on by turns.
class Pairs {
 public:
  Pairs(PairTopology topology, int ranks) : topology_(topology), ranks_(ranks) {}

  static bool begins(int rank, std::int64_t epoch) { return (rank + epoch) % 2 == 0; }
  /// The ranks with whom a rank may exchange, ascending; empty where there is one rank.
  std::vector<int> partners_of(int rank) const;
  /// With whom a rank that begins exchanges in its own step: each partner with equal probability, independently of all
  /// other draws. There must be two ranks or more.
  int partner(std::uint64_t seed, int rank, std::int64_t step) const;

 private:
  PairTopology topology_;
  int ranks_;
};

// Steps are dealt to whoever asks first: a rank asks rank 0 before each of its steps, and is told whether any is left.
// Two messages of a few bytes for each step.

/// A rank's side. Used by one thread at a time.
class StepPlayer {
 public:
  StepPlayer(comm::Communicator& ranks, parallel::CommonFate& fate) : ranks_(ranks), fate_(fate) {}

  void ask();
  /// Waits for the answer to `ask`. \return whether this rank is to make one more step of the segment
  bool is_given_one();

 private:
  comm::Communicator& ranks_;
  parallel::CommonFate& fate_;
  char question_ = 0;
  char given_ = 0;
  comm::RequestPtr asked_, answered_;
};

/// Rank 0's side: deals so many steps, and returns when every rank was told that none is left. Called on a thread of
/// its own.
void deal_steps(std::int64_t steps, comm::Communicator& ranks, parallel::CommonFate& fate);

/// Averages of this rank's θ_r with others', on threads of their own, while the rank makes its steps; and who makes how
/// many of them. Its functions are called by the rank's own thread.
class AsyncAverages {
 public:
  /// Collective. \param run must outlive this object
  AsyncAverages(TrainContext& run, PairTopology topology);

  int ranks() const { return group_->size(); }
  comm::Communicator& group() { return *group_; }
  /// Whether this rank begins averages in this segment; the others answer.
  bool begins() const { return begins_; }

  /// Begins a segment: from now on this rank answers if it does not begin, and rank 0 deals the segment's steps.
  void begin(const Segment& segment);
  /// Ends it when no rank begins averages any more. \param failure of this rank's steps; null: none
  /// \throws CommunicationError, or what failed first on this rank
  void end(std::exception_ptr failure);

  /// Asks for a step of the segment, where steps are dealt.
  void ask();
  /// \param made by this rank in the segment \return whether this rank is to make one more, for which it has asked
  bool is_given_one(std::int64_t made);

  /// Begins an average with a partner that is drawn for this step of the rank.
  void start(std::int64_t step);
  using Turn = Turns::Turn;
  /// Waits until this rank may read θ_r, which nobody changes during the turn.
  [[nodiscard]] Turn turn_to_read() { return turns_.take({rank_, false}); }
  /// Waits until the average that this rank began is made, and it may change θ_r.
  [[nodiscard]] Turn turn_to_step();

  /// In which θ_r took part so far; may be read during a turn.
  std::int64_t count() const { return count_; }
  std::int64_t begun() const { return begun_; }
  std::int64_t sent_bytes() const { return exchange_.sent_bytes(); }  ///< between segments
  /// In which this rank read, averaged and stepped in the segment that has ended.
  const std::vector<ServerEvent>& events() const { return turns_.order().events(); }

 private:
  void average(int peer);
  template <typename Work>
  void run_beside(Threads& threads, Work work);
  void give_up(std::exception_ptr cause);

  TrainContext& run_;
  std::unique_ptr<comm::Communicator> group_;
  int rank_;
  Pairs pairs_;
  std::vector<int> partners_;
  parallel::CommonFate fate_;
  Turns turns_;
  PairExchange exchange_;
  StepPlayer player_;
  bool begins_ = false;
  std::optional<std::int64_t> given_;  ///< steps of this rank in the segment, where nobody deals them
  std::int64_t count_ = 0, begun_ = 0;
  Threads averaging_, background_;
};

}  // namespace unisono::strategies
