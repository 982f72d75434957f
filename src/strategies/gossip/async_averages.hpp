#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gossip/pair_exchange.hpp"
#include "server/event_order.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/parallel/common_fate.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

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
  /// Whether this rank begins averages; the others answer.
  bool begins() const { return !partners_.empty() && Pairs::begins(rank_); }

  /// Begins a segment: from now on this rank answers, and rank 0 deals the segment's steps.
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
  using Turn = std::unique_lock<std::mutex>;
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
  std::optional<std::int64_t> given_;  ///< steps of this rank in the segment, where nobody deals them
  std::int64_t count_ = 0, begun_ = 0;
  Threads averaging_{"averages with other ranks"}, background_{"answers to other ranks"};
};

}  // namespace unisono::strategies
