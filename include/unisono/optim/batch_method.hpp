#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/optim/optimizer.hpp"

// Methods that minimise the loss of the whole training set: L-BFGS, conjugate gradients, Newton, gradient descent with
// a line search. A method asks a BatchFunction for values, gradients and sums, and never sees ranks.

namespace unisono::optim {

/// Elements [first, last) of a vector x that have the penalty weight · Σ|x|.
struct L1Range {
  Index first = 0, last = 0;
  double weight = 0;
  bool operator==(const L1Range&) const = default;
};

/// The function f that a method minimises, and all sums over vectors that the method needs.
///
/// Vectors have size() floats in plain memory. They may be this rank's shards of longer vectors: a method then works on
/// the rank's elements alone, and the ranks call all functions of this class together, in the same order. Every sum has
/// the same bits on every rank, and for every number of ranks.
class BatchFunction {
 public:
  virtual ~BatchFunction() = default;

  virtual Index size() const = 0;
  /// f(x), without l1 penalties; gradient = ∇f(x). Both may be infinite or NaN where x is too far away.
  virtual double value_and_gradient(View x, MutableView gradient) = 0;
  /// product = ∇²f(x) v, for models with second derivatives (OptimizerTraits::needs_hessian).
  /// \return whether the product went over the examples; false where form_hessian was called at x
  virtual bool hessian_times(View x, View v, MutableView product) = 0;
  /// What form_hessian costs, in products that go over the examples; infinite where that matrix cannot be formed.
  virtual double hessian_cost() const { return std::numeric_limits<double>::infinity(); }
  /// Forms ∇²f(x) as a matrix, for products at x.
  virtual void form_hessian(View /*x*/) {}

  /// Adds the terms of elements [first, last) to the sums.
  using AddTerms = std::function<void(Index first, Index last, std::span<double> sums)>;
  /// sums = what `add` adds over all elements of all ranks. `add` is called for consecutive pieces of this rank's
  /// elements; their lengths do not depend on the number of ranks, nor does the order in which they are summed.
  virtual void sum(std::span<double> sums, const AddTerms& add) = 0;
  /// max |v|; NaN where one is NaN.
  virtual double largest_magnitude(View v) = 0;

  /// The ranges with l1 penalties, ascending and disjoint, of this rank's elements. What is minimised is f(x) + Σ over
  /// all ranges of weight · Σ|x|.
  virtual std::span<const L1Range> l1() const { return {}; }
  /// Whether some rank has ranges with l1 penalties.
  virtual bool has_l1() const { return false; }

  // Built on `sum`
  /// Σ a b over all elements of all ranks, in double.
  double dot(View a, View b);
  /// sums[i] = Σ pairs[i].first · pairs[i].second, with one reduction.
  void dots(std::span<const std::pair<View, View>> pairs, std::span<double> sums);
};

/// Why a method ends; `none`: it goes on.
enum class BatchEnd {
  none,
  gradient,     ///< the largest element of the gradient is at most gradient_tolerance
  function,     ///< the last iteration changed f by at most function_tolerance, relative to f
  passes,       ///< optimizer.passes are made
  no_decrease,  ///< no step along the direction of steepest descent lowers f: rounding errors are larger than the gain
  stalled,      ///< neither f nor the gradient has become smaller for many iterations
  constant,     ///< the gradient is zero at the start: f is constant, or this is a minimum
  not_finite    ///< f or its gradient is not finite at the start
};

/// One iteration of a method.
struct BatchIteration {
  double value = 0;  ///< what is minimised, at the new x: with l1 penalties
  /// The largest element max |∇f| at the new x; with l1 penalties, of the subgradient of least norm; < 0: unknown.
  double gradient_magnitude = 0;
  double step_length = 0;        ///< α of x ← x + α d; of Newton's method: ‖step‖; < 0: there is none
  std::int64_t evaluations = 0;  ///< evaluations of value and gradient
  std::int64_t products = 0;     ///< products with the Hessian that went over the examples
  std::int64_t hessians = 0;     ///< Hessians formed as matrices
  BatchEnd end = BatchEnd::none;
  std::int64_t passes = 0;  ///< passes over the examples since the run began or was resumed; set by who computes f
};

/// A whole-batch method between two iterations.
class BatchMethod {
 public:
  virtual ~BatchMethod() = default;

  /// x ← the next iterate. The first call (and the first call after `restore` of an empty state) evaluates f at x
  /// first. Where `end` is set, x is the result. Collective where the function is.
  /// \param x [size] this rank's elements; unchanged since the last call
  virtual BatchIteration iterate(BatchFunction& f, MutableView x) = 0;

  /// The vectors [size] that the method keeps from one iteration to the next, in plain memory; for checkpoints.
  virtual std::vector<OptimizerState>& state() = 0;
  /// All other numbers that the method keeps, the same on all ranks.
  virtual std::vector<double> scalars() const = 0;
  /// Takes back what `scalars` returned; the vectors of `state` have been filled already.
  virtual void restore(const std::vector<double>& scalars) = 0;
};

/// The method that settings.kind names, for vectors of `size` floats. \throws ConfigError where settings.kind is no
/// such method
std::unique_ptr<BatchMethod> make_batch_method(const OptimizerSettings& settings, Index size);

}  // namespace unisono::optim
