#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gossip/consensus.hpp"
#include "gradient_sharing.hpp"
#include "server/event_order.hpp"
#include "server/server.hpp"
#include "sharing/relay.hpp"
#include "unisono/kernels/encoders.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

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
