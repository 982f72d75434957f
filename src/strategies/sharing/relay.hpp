#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/consensus.hpp"
#include "gradient_sharing.hpp"
#include "server/event_order.hpp"
#include "server/server.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/kernels/encoders.hpp"
#include "unisono/parallel/common_fate.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// One rank's encoded update of θ.
struct SharedUpdate {
  int sender = 0;         ///< the rank that made it
  std::int64_t read = 0;  ///< how many updates the sender's θ contained when it computed this one
  std::int64_t bytes = 0;
  std::shared_ptr<std::vector<std::uint64_t>> words{};  ///< of the message; in 8 bytes each, so that it is aligned

  std::span<std::byte> message() const {
    return std::as_writable_bytes(std::span(*words)).first(static_cast<std::size_t>(bytes));
  }
};

/// The neighbours of a rank in a binary tree over all ranks: its parent and its children, as far as there are any.
std::vector<int> tree_neighbours(int rank, int ranks);

/// Deals out the steps of a segment to ranks that go at their own pace. Of the ranks that wait for a step, the one that
/// has made fewest is next: a rank makes more steps than others only where these do not ask.
class StepQueue {
 public:
  struct Grant {
    int rank;
    std::int64_t left;  ///< steps of the segment after this one; −1: none is granted, since all have been
  };

  explicit StepQueue(int ranks) : granted_(static_cast<std::size_t>(ranks)), waits_(static_cast<std::size_t>(ranks)) {}

  /// \param steps that all ranks together make in this segment
  void begin(std::int64_t steps) { left_ = steps; }
  void ask(int rank) { waits_[static_cast<std::size_t>(rank)] = true; }
  /// None where no rank waits.
  std::optional<Grant> next();

 private:
  std::vector<std::int64_t> granted_;  ///< steps, by rank
  std::vector<bool> waits_;
  std::int64_t left_ = 0;
};

/// Brings every rank's updates to all other ranks, each exactly once, while they compute: a thread passes what comes
/// along an edge of the tree on along all other edges. Those of one rank arrive everywhere in their order. On rank 0 it
/// also deals out steps.
/// Cost per update: P − 1 messages of its length and as many of 24 bytes, up to three of each from one rank; it is
/// everywhere after at most 2 log2 P of them, one behind the other.
class Relay {
 public:
  explicit Relay(comm::Communicator& ranks, const Runtime& runtime = machine_runtime());
  ~Relay() { give_up(nullptr); }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Begins a segment: until all ranks have left. \param steps that all ranks together get when they ask for them; 0:
  /// they do not ask
  void begin(std::int64_t steps);
  /// Whether this rank may make one more step, as StepQueue says. Waits for rank 0's thread, unless many steps are
  /// left: then the next one is asked for while this one is made.
  bool ask_for_step();
  void share(SharedUpdate update);
  /// This rank shares no more in this segment. It then takes updates until there are no more, and calls `end`.
  void leave();

  /// The update that arrived first; none, if all that has arrived is taken.
  std::optional<SharedUpdate> take();
  /// Waits for one; none, if the segment has no more.
  std::optional<SharedUpdate> wait();
  /// Waits for the next one of this sender. \throws CheckpointError if the segment has no more of it
  SharedUpdate wait_for(int sender);
  /// Waits until all messages of the segment have been sent.
  void end();

  std::int64_t sent_bytes() const { return sent_bytes_; }      ///< after `end`
  std::int64_t sent_updates() const { return sent_updates_; }  ///< those that were passed on included; after `end`

 private:
  struct Header {
    std::int64_t sender, read, bytes;
  };
  /// An edge of the tree. It is closed in a direction when no more updates come that way.
  struct Edge {
    int peer;
    Header heard{};
    bool closed_in = false, closed_out = false;
  };
  struct Ask {
    int peer;
    std::byte heard{};
    std::int64_t left = 0;  ///< as StepQueue::Grant::left
  };
  using Found = std::function<std::deque<SharedUpdate>::iterator(std::deque<SharedUpdate>& arrived)>;

  void give_up(std::exception_ptr cause);
  void run(bool deals);
  void when(comm::RequestPtr request, std::function<void()> then) {
    awaited_.when(std::move(request), std::move(then));
  }
  void finish_some();
  void listen(Edge& edge);
  void hear(Edge& edge);
  void listen(Ask& ask);
  void arrive(SharedUpdate update);
  void send_own();
  void send(Edge& edge, const SharedUpdate& update);
  void send_header(int peer, const Header& header);
  void pass_on(const SharedUpdate& update, const Edge* from);
  void close_edges();
  void deal();
  void start_asking();
  std::optional<SharedUpdate> wait_until_found(const Found& find);

  comm::Communicator& ranks_;
  parallel::CommonFate fate_;
  std::vector<Edge> edges_{};
  std::vector<Ask> asks_{};
  parallel::Awaited awaited_;
  std::int64_t sent_bytes_ = 0, sent_updates_ = 0;
  StepQueue queue_;  ///< of rank 0's thread
  std::byte asked_{};
  std::int64_t left_ = 0;  ///< as Ask::left, in the answer to this rank
  comm::RequestPtr question_{}, answer_{};
  std::atomic<bool> has_news_ = false;  ///< of this rank for the thread

  std::mutex mutex_{};
  Condition changed_;
  std::deque<SharedUpdate> own_{}, arrived_{};  ///< to be sent; to be taken
  bool has_left_ = false, all_arrived_ = false;

  parallel::Background background_;  ///< ends before all that it uses
  comm::RequestPtr running_{};
};

/// Places in TrainContext::vectors: what this rank has not shared yet and, in step, its own running statistics.
inline constexpr std::size_t kResidual = 0, kOwnStatistics = 1;

/// What gradient sharing counts.
struct SharingCounters {
  std::int64_t sent_bytes = 0;   ///< of updates: its own, and others' that it passed on
  std::int64_t plain_bytes = 0;  ///< that whole vectors of θ's size would have taken in their place
  std::int64_t updates = 0;      ///< that it shared
  Histogram staleness = {};      ///< of others' updates that it applied
  ConsensusCounters consensus = {};

  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

/// How updates are encoded. The density is that of parameters, without the unused floats between blocks, which are 0.
kernels::ThresholdSettings encoding_of(const GradientSharingSettings& settings, const ParameterLayout& layout);

/// One rank of gradient sharing: makes steps, shares their updates, and applies the others'.
class SharingRank {
 public:
  SharingRank(TrainContext& run, const GradientSharingSettings& settings);

  /// Makes this rank's steps of a segment, and returns when every rank's updates are in θ. Collective.
  void train(const Segment& segment, EventOrder& order);
  /// All ranks continue with the mean of their θ and of their statistics; in step with the same θ, and each with its
  /// own statistics. Collective.
  void form_consensus();

  std::int64_t steps() const { return steps_; }  ///< of this rank since the run began
  void set_steps(std::int64_t steps) { steps_ = steps; }
  Index examples() const { return examples_; }  ///< since this object was made

 private:
  void make_steps(const Segment& segment);
  void train_freely(const Segment& segment);
  void train_bounded(const Segment& segment);
  void train_together(const Segment& segment);
  void train_as_recorded(const Segment& segment);
  void apply_rest();
  bool is_in_time() const;
  SharedUpdate compute(const Segment& segment);
  SharedUpdate encode();
  void step(const Segment& segment);
  void share(const SharedUpdate& update);
  void apply(const SharedUpdate& update);
  void count();

  TrainContext& run_;
  const GradientSharingSettings settings_;
  SharingCounters& counters_;
  Relay relay_;
  std::unique_ptr<kernels::Encoder> encoder_;
  MutableView residual_;
  Buffer change_;                ///< that the optimizer wants to make
  Buffer message_, statistics_;  ///< room for the longest message; of this rank, where ranks go on with the mean
  MutableView own_statistics_;   ///< before a consensus
  EventOrder* order_ = nullptr;
  std::int64_t clock_ = 0;                ///< this rank's steps in the segment
  std::vector<std::int64_t> applied_by_;  ///< updates in θ by their senders, in the segment
  std::int64_t applied_ = 0;              ///< updates in θ, since this object was made
  std::int64_t steps_ = 0;
  Index examples_ = 0, examples_of_segment_ = 0;
};

}  // namespace unisono::strategies
