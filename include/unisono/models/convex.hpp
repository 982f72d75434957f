#pragma once

#include <vector>

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
  /// \throws ConfigError naming model.loss where ℓ is not differentiable everywhere (hinge)
  virtual void require_smooth() const = 0;
  /// The penalties, which none of the functions below includes.
  virtual std::vector<PenalisedRange> penalties() const = 0;
  /// Whether it has no minimum once all examples are classified correctly and there is no penalty: ℓ falls towards 0
  /// as θ grows (logistic, softmax).
  virtual bool loss_vanishes_at_infinity() const = 0;

  /// g += scale · Σ w ∇ℓ over the batch, with the examples' weights w, and adds losses to `sums`.
  virtual void add_data_gradient(const data::Batch& batch, float scale, View parameters, MutableView gradient,
                                 kernels::LossSums& sums) = 0;
  /// product += scale · Σ w ∇²ℓ(θ) v over the batch.
  virtual void add_hessian_product(const data::Batch& batch, float scale, View parameters, View v,
                                   MutableView product) = 0;
  /// The most memory that these two take for a batch of so many examples, in addition to θ and g.
  virtual Index pass_bytes(Index batch) const = 0;
  /// Until the next call, all batches are of one set, whose sparse rows stay where they are: what is made of them to
  /// make passes faster is kept. Before the first call nothing is.
  virtual void begin_set() = 0;
  /// The most memory that this takes, with a set of so many examples. \param row_values of a sparse row, on average;
  /// 0: rows are contiguous
  virtual Index kept_bytes(Index examples, double row_values) const = 0;
  /// What `add_hessian` costs, in calls of add_hessian_product; infinite where there is no such matrix, because it
  /// would be too large, or the loss has several margins. \param row_values of a sparse row, on average; 0: rows are
  /// contiguous
  virtual double hessian_cost(double row_values) const = 0;
  /// matrix += scale · Σ w ∇²ℓ(θ) over the batch: the lower triangle; what is above it is undefined. \param matrix
  /// [N][N], N = θ's size
  virtual void add_hessian(const data::Batch& batch, float scale, View parameters, MutableView matrix) = 0;
};

}  // namespace unisono::models
