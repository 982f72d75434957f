#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "unisono/kernels/in_place.hpp"

// Kernels of alternating least squares. Each runs on the calling thread, and gives the same bits wherever it runs with
// the same instruction set.

namespace unisono::kernels {

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

/// Matrices A are symmetric, [stride × stride] floats in columns, of which only the lower triangle is defined; `stride`
/// is the table's width + 16.
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
  static Index scratch_floats(Index width);

  /// A += Σ q_i q_iᵀ over rows [first, last) of the table. \param gram A [gram_floats(table.width)]
  virtual void add_gram(const RowMatrix& table, Index rank, Index first, Index last, MutableView gram) const = 0;
  static Index gram_floats(Index width) { return width * (width + kLineFloats); }

  /// products[i] = p · q_i. \param p [table.width], aligned \param products [rows.size()]
  virtual void products(const RowMatrix& table, std::span<const std::uint32_t> rows, View p,
                        MutableView products) const = 0;
};

/// The kernels of the best instruction set that this CPU has.
std::unique_ptr<LeastSquaresKernels> make_least_squares_kernels();

}  // namespace unisono::kernels
