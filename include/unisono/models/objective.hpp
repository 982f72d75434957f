#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/models/model.hpp"

namespace unisono::models {

/// Elements [first, last) of θ with the penalty l1 Σ|θ| + l2/2 Σθ².
struct PenalisedRange {
  FloatRange range;
  double l1 = 0, l2 = 0;
  bool operator==(const PenalisedRange&) const = default;
};

/// Implemented by models whose loss ℓ(z, y) is convex in the margins z = Wx + b: linear models. They have fast passes
/// over many examples at once, on all threads, without the penalties; and products with the Hessian.
///
/// A batch's results do not depend on the number of threads. θ is in plain memory.
class Convex {
 public:
  virtual ~Convex() = default;
  /// Checks that ℓ is differentiable everywhere. \throws ConfigError naming model.loss where it is not (hinge)
  virtual void require_smooth() const = 0;
  /// The penalties on θ, which no other function of this interface includes.
  virtual std::vector<PenalisedRange> penalties() const = 0;
  /// Whether the loss has no minimum once all examples are classified correctly and there is no penalty: ℓ falls
  /// towards 0 as θ grows (logistic, softmax).
  virtual bool loss_vanishes_at_infinity() const = 0;

  /// g += scale · Σ w ∇ℓ over the batch, with the examples' weights w, and adds losses to `sums`.
  virtual void add_data_gradient(const data::Batch& batch, float scale, View parameters, MutableView gradient,
                                 kernels::LossSums& sums) = 0;
  /// product += scale · Σ w ∇²ℓ(θ) v over the batch.
  virtual void add_hessian_product(const data::Batch& batch, float scale, View parameters, View v,
                                   MutableView product) = 0;
  /// The most memory that add_data_gradient and add_hessian_product take for a batch of so many examples, in addition
  /// to θ and g.
  virtual Index pass_bytes(Index batch) const = 0;
  /// Until the next call, all batches are of one set, whose sparse rows stay where they are: what is made of them to
  /// make passes faster is kept. Before the first call nothing is kept.
  virtual void begin_set() = 0;
  /// The most memory that is kept after begin_set, with a set of so many examples. \param row_values values of a sparse
  /// row, on average; 0: rows are contiguous
  virtual Index kept_bytes(Index examples, double row_values) const = 0;
  /// What `add_hessian` costs, in calls of add_hessian_product; infinite where there is no such matrix, because it
  /// would be too large, or the loss has several margins. \param row_values values of a sparse row, on average; 0: rows
  /// are contiguous
  virtual double hessian_cost(double row_values) const = 0;
  /// matrix += scale · Σ w ∇²ℓ(θ) over the batch: the lower triangle; what is above it is undefined. \param matrix
  /// [N][N], N = θ's size
  virtual void add_hessian(const data::Batch& batch, float scale, View parameters, MutableView matrix) = 0;
};

/// The settings of an Objective.
struct ObjectiveTerms {
  int portions = 1;                       ///< parts into which the training set is divided
  Index batch_size = 512;                 ///< the most examples per pass of a network; linear models have their own
  std::vector<float> class_weights = {};  ///< [K] weights of the losses, by label; empty: all are 1
  double weight_decay = 0;                ///< λ
  DecayRule decay = DecayRule::weights;   ///< what λ applies to
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
  /// The penalties R(θ): ascending, disjoint. Elements in no range have no penalty.
  const std::vector<PenalisedRange>& penalties() const { return penalties_; }

  /// Called after each batch of a portion with the number of its examples; returns whether to go on.
  using Between = std::function<bool(Index examples)>;
  /// g += the gradient of the portion's share of the first term, of f, and adds its losses (not divided by n) to
  /// `sums`, which are complete on return. \return false if `between` stopped it: g and sums are then of no use
  /// \throws DataError
  bool add_gradient(int portion, ModelState state, MutableView gradient, kernels::LossSums& sums,
                    const Between& between);
  /// product += the portion's share of the Hessian of the first term of f at θ, times v; for Convex models.
  bool add_hessian_product(int portion, ModelState state, View v, MutableView product, const Between& between);
  /// What Hessian matrices cost, in products with the Hessian; infinite where the model has none (Convex).
  double hessian_cost() const;
  /// matrix += the portion's share of the Hessian of the first term of f at θ: the lower triangle. \param matrix [N][N]
  bool add_hessian(int portion, ModelState state, MutableView matrix, const Between& between);

 private:
  template <typename Visit>
  bool visit_portion(int portion, const Between& between, Visit visit);
  float share_of_example() const { return static_cast<float>(1 / static_cast<double>(examples())); }

  Model& model_;
  kernels::Backend& backend_;
  data::Dataset& data_;
  ObjectiveTerms terms_;
  Convex* convex_;  ///< null: the model is not convex
  std::vector<PenalisedRange> penalties_;
};

/// A row of one of a model's two tables, and its ratings.
struct RatedRow {
  std::size_t space = 0;                       ///< 0: the rows (users), 1: the columns (items), as in row_spaces()
  Index number = 0;                            ///< number of the row in its table
  std::span<const std::uint32_t> others = {};  ///< [n] rows of the other table
  View values = {};                            ///< [n] the ratings

  Index ratings() const { return std::ssize(others); }
};

/// Implemented by a model of two tables (users and items) whose objective
///     J = Σ ratings' losses + Σ penalties of rows + a share that depends on the tables' Gram matrices alone
/// is a quadratic function of each row while the other table is fixed. θ is in plain memory and holds both tables. The
/// functions change only what they are given, and threads may call them concurrently for different rows.
class Alternating {
 public:
  virtual ~Alternating() = default;

  /// How many ratings the model is trained on; 0: unknown.
  virtual std::int64_t training_ratings() const = 0;
  /// Whether several ratings of one pair are one with their sum (counts of events), and whether there must be one
  /// above 0.
  virtual bool adds_up_ratings() const = 0;
  /// Floats of a table's Gram matrix Σ x xᵀ, which all rows of the other table share; 0: they share none.
  virtual Index gram_floats() const = 0;
  /// gram += Σ x xᵀ over rows [first, last) of a table.
  virtual void add_gram(std::size_t space, Index first, Index last, View parameters, MutableView gram) const = 0;
  /// The share of J that belongs to neither ratings nor rows. \param grams of both tables
  virtual double shared_loss(View row_gram, View column_gram) const = 0;

  /// A thread's workspace.
  virtual std::unique_ptr<Scratch> make_solver() const = 0;
  /// Solves for a row: the row ← the minimum of J over it. A row without ratings becomes zero.
  /// \param gram of the other table; empty where there is none
  virtual void solve(const RatedRow& row, View gram, MutableView parameters, Scratch& scratch) const = 0;
  /// About how many flops `solve` takes for a row with n ratings.
  virtual double solving_flops(Index n) const = 0;

  /// The penalty of a row in J.
  virtual double row_penalty(const RatedRow& row, View parameters) const = 0;
  /// Adds a row's ratings to `sums`. \return the losses of the ratings in J
  virtual double add_losses(const RatedRow& row, View parameters, Scratch& scratch, kernels::LossSums& sums) const = 0;
};

}  // namespace unisono::models
