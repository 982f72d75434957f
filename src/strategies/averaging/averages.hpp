#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "averaging/outer_step.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// An average that is computed while the next steps are made; averages.cpp has the formula.
class DelayedAverage {
 public:
  /// Collective: allocates.
  explicit DelayedAverage(TrainContext& run);
  /// Bytes of memory that one object takes on each rank.
  static std::int64_t bytes(const models::Model& model);

  /// Starts the average of θ as it is now. Collective. \param share this rank's; they add up to 1 over the ranks
  void start(double share);
  /// Drives the average that is under way, if there is one. Called after each step.
  void advance();
  /// Ends the average that is under way, if there is one, and applies it to θ. Collective.
  /// \param outer makes a step from the average; may be null
  void finish(OuterStep* outer);

 private:
  void weigh(View values, double share, MutableView result);
  void wait();

  TrainContext& run_;
  Buffer before_;  ///< this rank's θ when the average was started
  Buffer mean_;    ///< its share of the average; then the average
  std::vector<comm::RequestPtr> sums_;
};

/// The mean of the ranks' θ from compressed differences; averages.cpp has the formula.
class CompressedAverage {
 public:
  /// \param residual kept by the run, as θ \param start θ₀: what all ranks held after the last average
  CompressedAverage(TrainContext& run, const parallel::CompressionSettings& settings, MutableView residual, View start);

  /// θ ← about Σ_r weight_r θ_r / Σ_r weight_r, with the same bits on all ranks. Collective.
  /// \param step of the run, that is made
  void average(double weight, std::int64_t step);

 private:
  void take_residual();

  TrainContext& run_;
  parallel::CompressedBlocks blocks_;
  parallel::CompressedChanges changes_;
  MutableView residual_;
  View start_;
};

/// Bytes of vectors that were averaged over the ranks of a node, between the averages of all ranks.
struct NodeAverageCounters {
  std::int64_t bytes = 0;

  void describe(CounterVisitor& visitor) { visitor.count({.name = "node_averaged_bytes", .unit = "bytes"}, bytes); }
  std::string text(const CounterTerms& terms) const { return terms.bytes_line("in nodes", bytes); }
};

/// The ranks of a node, which average more often than all ranks do; averages.cpp has the formula.
class NodeAverages {
 public:
  /// Collective. \param ranks all that are averaged; outlives this object
  explicit NodeAverages(comm::Communicator& ranks);

  /// The ranks of this rank's node.
  comm::Communicator& node() const { return own_ ? *own_ : ranks_; }
  /// Counts examples of this rank.
  void count(Index examples);
  /// This rank's weight in an average of its node, which is made now.
  double weight_in_node();
  /// This rank's weight in an average of all ranks, which is made now. One allreduce of 16 bytes within the node.
  /// Collective over the node.
  double weight_of_all();

 private:
  comm::Communicator& ranks_;
  std::unique_ptr<comm::Communicator> own_;  ///< null: all ranks are on one node
  Index since_average_ = 0;                  ///< n_r: examples since the last average of either kind
  Index since_average_of_all_ = 0;           ///< m_r
};

}  // namespace unisono::strategies
