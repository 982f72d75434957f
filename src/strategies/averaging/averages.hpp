#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unisono/base/counters.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// A period that becomes shorter as the training loss falls; averages.cpp has the formula.
class AdaptivePeriod {
 public:
  /// What it has learnt; the same on all ranks.
  struct State {
    double first_loss = -1;   ///< F(θ₀); negative: not measured yet
    std::int64_t period = 0;  ///< τ, the present one; 0: τ₀
    std::vector<double> scalars() const;
    void restore(const std::vector<double>& scalars);
  };

  /// \param first τ₀ \param state outlives this object
  AdaptivePeriod(TrainContext& run, std::int64_t first, State& state);

  /// A period begins after so many steps of the run; its losses are counted from here on.
  void begin(std::int64_t made);
  bool ends(std::int64_t made) const { return made == begun_ + state_.period; }
  /// At an average: measures the losses since `begin`, and chooses the next period. Collective over all ranks of all
  /// replicas.
  void choose();

 private:
  double loss_of_period();

  TrainContext& run_;
  std::int64_t first_, begun_ = 0;
  State& state_;
  kernels::LossSums before_;  ///< the run's unreported losses of earlier periods
};

/// What is done with an average of the ranks' parameters.
enum class OuterKind {
  none,     ///< the average is the new θ
  sgd,      ///< a step along Δ
  nesterov  ///< the same with Nesterov momentum
};

/// `[strategy.outer]`: the outer optimizer.
struct OuterSettings {
  OuterKind kind = OuterKind::none;
  double sgd_rate = 1, nesterov_rate = 0.7;  ///< η of each kind
  double nesterov_momentum = 0.9;            ///< μ

  bool is_on() const { return kind != OuterKind::none; }
  double rate() const { return kind == OuterKind::sgd ? sgd_rate : nesterov_rate; }
  double momentum() const { return kind == OuterKind::nesterov ? nesterov_momentum : 0; }
  void describe(ConfigVisitor& visitor);
};

/// An optimizer whose gradient is what the ranks have moved since the last average; averages.cpp has the formula.
class OuterStep {
 public:
  /// The vectors that it keeps: θ₀, and v where there is momentum; the same on all ranks.
  static std::vector<parallel::StateVector> state_vectors(const OuterSettings& settings);
  /// Called while all ranks hold the same θ, which becomes θ₀. \param run its `vectors` are those of state_vectors
  OuterStep(TrainContext& run, const OuterSettings& settings);

  /// One step from θ₀. \param mean in: the ranks' average, the same on all of them; out: the new θ₀
  void step(MutableView mean);

 private:
  TrainContext& run_;
  float rate_, momentum_;
  MutableView start_;     ///< θ₀, [N] as θ
  MutableView velocity_;  ///< v, [N] as θ; empty without momentum
};

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
