#pragma once

#include <functional>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/convex.hpp"
#include "unisono/models/model.hpp"

namespace unisono::models {

/// The settings of an Objective.
struct ObjectiveTerms {
  int portions = 1;                       ///< that the training set is divided into
  Index batch_size = 512;                 ///< the most examples per pass of a network; linear models have their own
  std::vector<float> class_weights = {};  ///< [K] of examples' losses, by their label; empty: all are 1
  double weight_decay = 0;                ///< λ
  bool decay_biases_and_norms = false;
  data::Delivery delivery = {};
};

/// Examples per pass of a network over a portion with `count` of them: at most `most`. Passes are about equally large,
/// since small ones are slower per example, and of full vectors of 16 examples where possible.
Index network_batch(Index count, Index most);

/// Examples per pass of any model over a portion with `count` of them, at most `most`; for linear models, so many that
/// a pass is enough work for several threads.
Index objective_batch(Model& model, const data::DatasetInfo& data, Index count, Index most);

/// The function that training on the whole set minimises:
///     f(θ) = (1/n) Σ_i w_i ℓ_i(θ) + R(θ)         over the n training examples
///     R(θ) = the model's own penalties + λ/2 Σ θ²  of the blocks that decay and are not frozen
/// The first term is cut into portions of consecutive examples, which several workers may share: each computes the sum
/// over its examples, divided by n. R is not part of the portions: whoever adds them up adds it once (`penalties`).
/// A portion's result does not depend on who computes it, nor on threads. Never collective.
class Objective {
 public:
  /// \param backend the model's, in whose memory state and gradient lie
  /// \param data its training examples are used; all three must outlive the objective
  /// \throws ConfigError naming the layer, loss or setting if the examples or the model's passes are random
  /// (augmentation, dropout), depend on other examples of a batch (batch statistics), or have no gradient
  Objective(Model& model, kernels::Backend& backend, data::Dataset& data, const ObjectiveTerms& terms);

  /// Checks what the constructor checks. \throws ConfigError
  static void require(Model& model, const data::DatasetInfo& data);

  int portions() const { return terms_.portions; }
  std::int64_t examples() const { return data_.info().train; }  ///< n
  /// R(θ): ascending, disjoint. Elements in no range have no penalty.
  const std::vector<PenalisedRange>& penalties() const { return penalties_; }

  /// Called after each batch of a portion with the number of its examples; returns whether to go on.
  using Between = std::function<bool(Index examples)>;
  /// g += the gradient of the portion's share of the first term, and adds its losses (not divided by n) to `sums`,
  /// which are complete on return. \return false if `between` stopped it: g and sums are then of no use
  /// \throws DataError
  bool add_gradient(int portion, ModelState state, MutableView gradient, kernels::LossSums& sums,
                    const Between& between);
  /// product += the portion's share of the first term's Hessian at θ, times v; for Convex models.
  bool add_hessian_product(int portion, ModelState state, View v, MutableView product, const Between& between);
  /// What Hessian matrices cost, in products with the Hessian; infinite where the model has none (Convex).
  double hessian_cost() const;
  /// matrix += the portion's share of the first term's Hessian at θ: the lower triangle. \param matrix [N][N]
  bool add_hessian(int portion, ModelState state, MutableView matrix, const Between& between);

 private:
  template <typename Visit>
  bool visit_portion(int portion, const Between& between, Visit visit);
  float share_of_example() const { return static_cast<float>(1 / static_cast<double>(examples())); }

  Model& model_;
  kernels::Backend& backend_;
  data::Dataset& data_;
  ObjectiveTerms terms_;
  Convex* convex_;  ///< null: the model is not
  std::vector<PenalisedRange> penalties_;
};

}  // namespace unisono::models
