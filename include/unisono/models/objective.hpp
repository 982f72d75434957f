#pragma once

#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"

namespace unisono::models {

/// The settings of an Objective.
struct ObjectiveTerms {
  int portions = 1;                       ///< that the training set is divided into
  Index batch_size = 256;                 ///< examples per pass of the model; batch statistics are taken over these
  std::vector<float> class_weights = {};  ///< [K] of examples' losses, by their label; empty: all are 1
  double weight_decay = 0;                ///< λ
  bool decay_biases_and_norms = false;
  data::Delivery delivery = {};
};

/// The function that training on the whole set minimises, and its gradient:
///     f(θ) = (1/n) Σ_i w_i ℓ_i(θ) + R(θ)         over the n training examples
///     R(θ) = the model's own penalty + λ/2 Σ θ²  of the blocks that decay and are not frozen
/// It is cut into portions of consecutive examples, which several workers may share: f_p = (1/n) Σ_{i ∈ p} w_i ℓ_i(θ) +
/// |p|/n R(θ). The f_p add up to f, and their gradients to ∇f. Both functions below compute the same f_p, to the bit:
/// a line search compares them. Dropout masks are those of the first epoch; augmentation is left out; a batch's
/// statistics are those of its own examples. Never collective.
class Objective {
 public:
  /// \param backend the model's, in whose memory state and gradient lie
  /// \param data its training examples are used; all three must outlive the objective
  Objective(Model& model, kernels::Backend& backend, data::Dataset& data, const ObjectiveTerms& terms);

  int portions() const { return terms_.portions; }
  /// f_p(θ). Running statistics do not change. \throws DataError
  double value(int portion, ModelState state);
  /// The same, and g (+)= ∇f_p(θ). Running statistics are updated by the portion's batches. \throws DataError
  double value_and_gradient(int portion, ModelState state, MutableView gradient, kernels::Write write);

 private:
  double share_of(std::int64_t examples) const;
  double value_of(const kernels::LossSums& sums, View parameters) const;
  double penalty(View parameters) const;
  void add_decay(double share, View parameters, MutableView gradient) const;
  template <typename Visit>
  kernels::LossSums visit_portion(int portion, Visit visit) const;

  Model& model_;
  kernels::Backend& backend_;
  data::Dataset& data_;
  ObjectiveTerms terms_;
  std::vector<FloatRange> decaying_;
};

}  // namespace unisono::models
