#pragma once

#include <memory>
#include <utility>

#include "unisono/data/dataset.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/parallel/replica.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono::parallel {

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
