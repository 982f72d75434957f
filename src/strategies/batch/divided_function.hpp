#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "batch/portions.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/models/objective.hpp"
#include "unisono/optim/batch_method.hpp"
#include "unisono/strategies/strategy.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::strategies {

/// What whole-batch methods count; portions are counted where the training set is divided into such.
struct BatchCounters {
  std::int64_t passes = 0, evaluations = 0;  ///< the same on all ranks; see optim::BatchIteration
  std::int64_t products = 0, hessians = 0;   ///< the same on all ranks
  std::int64_t portions = 0;                 ///< of the training set; 0: it is not divided
  std::int64_t computed = 0, cancelled = 0;  ///< portions that this rank finished; that it was told to leave
  std::int64_t moved = 0, repeated = 0;      ///< portions, counted on rank 0; see Dealer
  std::int64_t nodes = 0;                    ///< of the trees that were added up, over all ranks
  std::int64_t sent_bytes = 0;               ///< of vectors

  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

/// The function that whole-batch methods minimise, computed by all ranks. Each has a shard of the method's vectors, and
/// all of θ while it computes. An evaluation at x:
///     θ ← all ranks' shards of x                                                    4N (P − 1)/P bytes a rank
///     each portion: its gradient and losses, on the rank to which it was dealt
///     g's shards ← the sum over the tree of portions                       n · 4N (P − 1)/P bytes a rank, n: its nodes
///     f, g += the penalties, each element by its owner                                       one reduction, if any
/// No result depends on who computed which portion, nor on the number of ranks, bit for bit.
class DividedFunction final : public optim::BatchFunction {
 public:
  /// Collective. \param run must outlive it
  DividedFunction(TrainContext& run, bool backup);

  const VectorShards& shards() const { return gradients_.shards; }
  Index size() const override { return shards().shard_size(rank()); }
  double value_and_gradient(View x, MutableView gradient) override;
  bool hessian_times(View x, View v, MutableView product) override;
  double hessian_cost() const override { return objective_.hessian_cost(); }
  void form_hessian(View x) override;
  void sum(std::span<double> sums, const AddTerms& add) override;
  double largest_magnitude(View v) override;
  std::span<const optim::L1Range> l1() const override { return l1_; }
  bool has_l1() const override { return has_l1_; }

  /// Makes all of θ that of x. \return the losses at x over all ranks, where x was evaluated since the last call, or
  /// has not changed since
  kernels::LossSums settle(View x);
  std::int64_t passes() const { return passes_; }  ///< over the training set, since this object was made
  /// Null where this rank has none.
  const Coordinator* coordinator() const { return coordinator_.get(); }

 private:
  using Compute = std::function<bool(int portion, MutableView sum, kernels::LossSums& losses,
                                     const models::Objective::Between& between)>;
  /// What the portions of a pass are added up to: vectors, each rank's shard of their sum.
  struct PortionSums {
    VectorShards shards;
    Subtrees subtrees;
  };
  /// ∇²f at a point, without the penalties; all of it on each rank.
  struct HessianMatrix {
    PortionSums sums;
    Buffer x, shard;
    Buffer values;  ///< [N][N]
  };
  PortionSums sums_of_vectors(Index size) const;
  int rank() const { return run_.communicator.rank(); }
  void place(View x, MutableView whole);
  bool equal_everywhere(View shard, View other);
  void settle_theta(View x);
  kernels::LossSums pass(const Compute& compute, PortionSums& sums, MutableView shard);
  void compute_portions(const Compute& compute, Subtrees& subtrees);
  bool compute_portion(const Compute& compute, Subtrees& subtrees, int portion, const std::function<bool()>& go_on);
  void add_up(PortionSums& sums, MutableView shard, kernels::LossSums& losses);
  void multiply(const HessianMatrix& hessian, View v, MutableView product) const;
  double penalty(View x);
  void add_penalty_gradient(View x, MutableView gradient) const;
  void freeze(MutableView vector) const;

  /// A point at which the function was evaluated, by a hash of this rank's shard.
  struct Evaluated {
    std::uint64_t hash = 0;
    kernels::LossSums losses;
  };

  TrainContext& run_;
  models::Objective& objective_;
  BatchCounters& counters_;
  std::unique_ptr<comm::Communicator> ranks_;  ///< for the messages of this object alone
  PortionSums gradients_;
  parallel::CommonFate fate_;
  std::unique_ptr<Coordinator> coordinator_;  ///< on rank 0 of several
  std::unique_ptr<ThreadTeam> team_;          ///< its thread and the caller's; null: there is no coordinator here
  PortionWorker worker_;
  std::int64_t passes_ = 0;
  std::vector<std::pair<int, kernels::LossSums>> finished_;  ///< this rank's portions of the pass
  std::vector<models::PenalisedRange> penalties_;            ///< of this rank's shard, from its start
  std::vector<optim::L1Range> l1_;                           ///< likewise
  std::vector<FloatRange> trainable_;                        ///< likewise
  bool has_l2_ = false, has_l1_ = false;                     ///< on any rank
  Buffer direction_;                                         ///< [N] of Hessian products; empty until needed
  std::unique_ptr<HessianMatrix> hessian_;                   ///< null: none was formed
  std::vector<Evaluated> evaluated_;                         ///< the point of the last `settle`, and those since then
};

}  // namespace unisono::strategies
