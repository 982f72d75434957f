#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "unisono/kernels/in_place.hpp"
#include "unisono/kernels/layer_kernels.hpp"
#include "unisono/tensor/features.hpp"

// Kernels of linear models that go over many examples with the same θ: gradients, and products with the Hessian. They
// run on several threads; results depend on the examples and on the instruction set, not on the number of threads.
namespace unisono::kernels {

/// Examples of a pass: consecutive rows of a sparse matrix, or contiguous rows of all features.
struct LinearExamples {
  const SparseRows* rows = nullptr;  ///< null: rows are in `values`
  Index first = 0;                   ///< the first of the sparse rows
  const float* values = nullptr;     ///< [count][features]
  Index count = 0, features = 0;
  const float* targets = nullptr;        ///< [count] targets as for MarginLoss, or classes; null: they are in `labels`
  const std::int32_t* labels = nullptr;  ///< [count]
  const float* weights = nullptr;        ///< [count] factors of the losses; null: all are 1
};

/// How an example's loss follows from its margins.
struct LinearLossSpec {
  MarginLoss margin = MarginLoss::logistic;
  Index classes = 0;  ///< margins of a softmax; 0: one margin
  Index width = 1;    ///< with softmax: floats of a row of weights, a multiple of 16 whose last ones are 0
};

/// Weights and biases in a vector that is laid out as θ: [features] and [1], or with softmax [features][width] and
/// [width].
template <typename Float>
struct LinearVector {
  Float* weights = nullptr;
  Float* bias = nullptr;  ///< null: none
};

/// The lower triangle of a Hessian with one margin: rows of the weights, and the bias's. What is above the diagonal is
/// undefined.
struct LinearHessian {
  float* weights = nullptr;    ///< [features][stride]: row j, columns 0 … j
  Index stride = 0;            ///< at least `features`
  float* bias = nullptr;       ///< [features]: the bias's row; null: there is no bias
  float* bias_bias = nullptr;  ///< the last element of the bias's row
};

/// Passes of a linear model over many examples with the same θ.
class LinearPasses {
 public:
  virtual ~LinearPasses() = default;

  /// g += scale · Σ w ∂ℓ/∂θ. Adds Σ w ℓ and the unweighted figures of classification or regression to `sums`.
  ///   The relative error of a mean loss is some 1e-8: the margins are floats, their losses are added in double.
  virtual void gradient(const LinearExamples& examples, const LinearLossSpec& loss, float scale,
                        LinearVector<const float> theta, LinearVector<float> g, LossSums& sums) = 0;
  /// product += scale · Σ w ∂²ℓ/∂θ² v. One pass over the examples.
  virtual void hessian_product(const LinearExamples& examples, const LinearLossSpec& loss, float scale,
                               LinearVector<const float> theta, LinearVector<const float> v,
                               LinearVector<float> product) = 0;
  /// The most floats of memory that `gradient` and `hessian_product` take for so many examples; sparse ones may take
  /// fewer. \param width floats of a feature's weights
  virtual Index most_floats(Index count, Index features, Index width) const = 0;
  /// Until the next call, sparse rows at one place in memory are the same rows, and what is made of them to make passes
  /// faster is kept. Before the first call nothing is kept.
  virtual void begin_set() = 0;
  /// The most bytes that are kept after begin_set, and that passes take in addition because of it. \param row_values
  /// values of a sparse row, on average
  virtual Index kept_bytes(Index examples, Index features, double row_values) const = 0;
  /// hessian += scale · Σ w ∂²ℓ/∂θ². \pre one margin
  virtual void hessian(const LinearExamples& examples, const LinearLossSpec& loss, float scale,
                       LinearVector<const float> theta, const LinearHessian& hessian) = 0;
};

/// The passes with the best instruction set that this CPU has. \param threads at least 1
std::unique_ptr<LinearPasses> make_linear_passes(int threads);

// Kernels of alternating least squares. Each runs on the calling thread, and gives the same bits wherever it runs with
// the same instruction set.

/// The terms of one row's regularised least squares problem; the q_i are rows of a table.
struct LeastSquaresTerms {
  std::span<const std::uint32_t> rows;  ///< [n] numbers of the q_i in the table; n ≥ 1
  View targets;                         ///< [n] y_i
  View weights = {};                    ///< [n] w_i; empty: all are 1
  View gram = {};                       ///< G, as LeastSquares::add_gram makes it; empty: 0
  float l2 = 0;                         ///< λ, above 0
  bool bias = false;                    ///< b is solved for, too; only without weights and G
};

/// The K factors of a row, filled up with zeros to a multiple of 16, and its bias.
struct LeastSquaresSolution {
  MutableView factors;
  float* bias = nullptr;  ///< null unless LeastSquaresTerms::bias
};

/// Kernels of alternating least squares. Matrices A are symmetric, [stride × stride] floats in columns, of which only
/// the lower triangle is defined; `stride` is the table's width + 16.
class LeastSquaresKernels {
 public:
  virtual ~LeastSquaresKernels() = default;
  virtual const char* name() const = 0;  ///< "AVX-512", "AVX2", "portable"

  /// p, b ← the solution of the normal equations
  ///     [ G + Σ w_i q_i q_iᵀ + λ I   Σ q_i  ] [p]   [Σ y_i q_i]
  ///     [ Σ q_iᵀ                     n + λ  ] [b] = [Σ y_i    ]       where a bias is wanted, else the first row alone
  /// by Cholesky's factorization; about n K² + K³ / 3 + 2 K² flops.
  /// \param table K = `rank` of its floats are in use \param scratch [scratch_floats(table.width)], aligned
  virtual void solve(const RowMatrix& table, Index rank, const LeastSquaresTerms& terms, MutableView scratch,
                     const LeastSquaresSolution& solution) const = 0;
  /// Floats of scratch memory that `solve` takes.
  static Index scratch_floats(Index width);

  /// A += Σ q_i q_iᵀ over rows [first, last) of the table. \param gram A [gram_floats(table.width)]
  virtual void add_gram(const RowMatrix& table, Index rank, Index first, Index last, MutableView gram) const = 0;
  /// Floats of the matrix A of `add_gram`.
  static Index gram_floats(Index width) { return width * (width + kLineFloats); }

  /// products[i] = p · q_i, for the rows q_i of the table that `rows` names. \param p [table.width], aligned \param
  /// products [rows.size()]
  virtual void products(const RowMatrix& table, std::span<const std::uint32_t> rows, View p,
                        MutableView products) const = 0;
};

/// The kernels of alternating least squares with the best instruction set that this CPU has.
std::unique_ptr<LeastSquaresKernels> make_least_squares_kernels();

}  // namespace unisono::kernels
