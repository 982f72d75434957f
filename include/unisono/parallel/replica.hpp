#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "unisono/data/dataset.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/models/model.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono::parallel {

class GradientExchange;
struct StepTerms;

/// Whether g is the mean over the examples of all replicas in the step, or over this replica's own.
enum class MeanOver { all_replicas, own_examples };

/// A copy of the model as strategies train it: one rank that holds all of θ, or the stages of a pipeline, each with its
/// shard of θ and g. A strategy does not know which.
class Replica {
 public:
  virtual ~Replica() = default;

  /// How this rank's shard of θ, of g and of the optimizer's vectors lies in memory.
  virtual const ParameterLayout& layout() const = 0;
  /// How its running statistics lie in memory.
  virtual const ParameterLayout& statistics_layout() const = 0;
  /// Gradient accumulation: reads the micro-batches of one step and leaves g = (1/n) Σ w ∇ℓ, summed over this replica's
  /// examples, in their order; each rank of the replica has its shard. n: the step's examples on all replicas, or on
  /// this one. Collective over the replica's ranks.
  /// \param exchange is told which ranges of g are final; may be null
  /// \return the step's last micro-batch, of which only the counts are valid
  virtual data::Batch gradient_of_step(StepTerms& run, MeanOver mean_over, GradientExchange* exchange) = 0;
  /// Adds the losses of all examples of a source to `sums`, on one rank of the replica. Collective, as above.
  virtual void evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums) = 0;
  /// Sums numbers of which each of the replica's ranks has its own, in place: all get the sums. Collective, as above.
  virtual void sum(std::span<double>) {}
  /// The most memory that the activations of a pipeline's stage have taken so far; 0 for other replicas.
  virtual std::int64_t workspace_bytes() const { return 0; }
};

/// A replica of one rank.
class SingleReplica : public Replica {
 public:
  explicit SingleReplica(models::Model& model) : model_(model) {}
  const ParameterLayout& layout() const override { return model_.layout(); }
  const ParameterLayout& statistics_layout() const override { return model_.statistics_layout(); }
  data::Batch gradient_of_step(StepTerms& run, MeanOver mean_over, GradientExchange* exchange) override;
  void evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums) override;

 private:
  models::Model& model_;
};

/// Rows of θ that a strategy gives to this rank; no rank holds all of θ, and each row has one holder. What a rank holds
/// may change from step to step.
class RowHolding : public Holding {
 public:
  bool held_by_all() const final { return false; }
  /// Adds the losses of this rank's part of a split to `sums`. Collective; rows may travel meanwhile, but in the end
  /// every rank holds what it held before. \param parameters [size()] this rank's rows
  virtual void evaluate(data::EvaluationSource& source, MutableView parameters, kernels::LossSums& sums) = 0;
};

/// A replica whose ranks hold rows. Its strategy trains it itself, without gradients.
class RowReplica final : public SingleReplica {
 public:
  RowReplica(models::Model& model, std::shared_ptr<RowHolding> rows) : SingleReplica(model), rows_(std::move(rows)) {}
  void evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums) override {
    rows_->evaluate(source, state.parameters, sums);
  }

 private:
  std::shared_ptr<RowHolding> rows_;
};

}  // namespace unisono::parallel
