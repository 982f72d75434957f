#pragma once

#include "cpu/in_place_loops.hpp"

// The inner loops of linear models' passes over many examples with one θ; loops.hpp says what all loops have in common.

namespace unisono::kernels::cpu {

/// At most so many examples are given to the loops of losses at once.
inline constexpr Count kLossBlock = 256;

/// Rows of ones as bit columns: bit r of masks[b · width + j] tells whether row 64 b + r has column j.
struct BitExamples {
  const std::uint64_t* masks = nullptr;
  Count width = 0;            ///< columns
  Count first = 0, last = 0;  ///< rows
};
inline constexpr Count kMaskRows = 64;

/// Targets and weights of a block of examples, and the factor of their gradients.
struct BlockTargets {
  const float* targets = nullptr;
  const float* weights = nullptr;  ///< null: all are 1
  float scale = 1;
  Count count = 0;  ///< at most kLossBlock
};

/// Sums over examples, as many in parallel as a register has lanes. `settle` adds them up.
struct PassSums {
  static constexpr Count kMost = 16;
  double loss[kMost] = {};     ///< Σ w ℓ
  double slope[kMost] = {};    ///< Σ of the derivatives, of one margin
  double product[kMost] = {};  ///< Π (1 + e^−|z|), whose logarithm belongs to the loss
  double squared_error[kMost] = {}, absolute_error[kMost] = {};
  std::int32_t hits[kMost] = {};
  Count factors = 0;  ///< of the products; 0: these are not set
  std::int64_t correct = 0;
};

/// Weights of one margin, θ or a direction.
struct MarginVector {
  const float* weights = nullptr;  ///< null: none
  float bias = 0;
};

/// Rows of weights, `width` floats for each feature.
struct RowsVector {
  const float* weights = nullptr;
  const float* bias = nullptr;  ///< null: none
  Count width = 0;
};

struct LinearLoops {
  // linear_losses.cpp
  // -----------------
  /// Afterwards all sums are in the first lane, and hits in `correct`.
  void (*settle)(PassSums& sums);
  /// d = scale w ℓ'(z); adds all sums
  void (*derivatives)(MarginLoss loss, const BlockTargets& block, const float* z, float* d, PassSums& sums);
  /// u ← scale w ℓ''(z) u; adds to `slope`
  void (*bends)(MarginLoss loss, const BlockTargets& block, const float* z, float* u, PassSums& sums);
  /// Rows of `width` margins of a softmax over `classes`: z ← scale w (softmax(z) − 1[target]), 0 behind the classes;
  /// adds losses and hits
  void (*softmax_derivatives)(Count classes, Count width, const BlockTargets& block, float* z, PassSums& sums);
  /// u ← scale w (p ⊙ u − p (p · u)), p = softmax(z); z is overwritten
  void (*softmax_bends)(Count classes, Count width, const BlockTargets& block, float* z, float* u);

  // linear_sparse_pass.cpp
  // ----------------------
  /// z_i = w · x_i + b for the rows [first, last), and u_i = v · x_i + c where v is not null
  void (*sparse_margins)(const SparseExamples& rows, const MarginVector& w, const MarginVector& v, float* z, float* u);
  /// The same of w and v in turn, w_0, v_0, w_1, …: one load for both.
  void (*sparse_pairs)(const SparseExamples& rows, const float* pairs, float w_bias, float v_bias, float* z, float* u);
  /// g_j += Σ_i d_i x_ij for the features j of [low, high), row by row
  void (*sparse_add)(const SparseExamples& rows, const float* d, Count low, Count high, float* g);
  /// H_jk += Σ_i d_i x_ij x_ik for the features j of [low, high) and k ≤ j, rows of `stride` floats
  void (*sparse_add_outer)(const SparseExamples& rows, const float* d, Count low, Count high, float* h, Count stride);
  /// z_i = Σ_j x_ij W_j + b, rows of W.width floats
  void (*sparse_rows)(const SparseExamples& rows, const RowsVector& w, float* z);
  /// G_j += Σ_i x_ij D_i, rows of `width` floats, for the features j of [low, high)
  void (*sparse_add_rows)(const SparseExamples& rows, const float* d, Count width, Count low, Count high, float* g);

  // linear_bits.cpp: null where the instruction set has no masks
  // ---------------
  /// z_i = w · x_i + b for the rows [first, last)
  void (*bit_margins)(const BitExamples& rows, const MarginVector& w, float* z) = nullptr;
  /// Adds Σ_i d_i x_ij to the sum of the 16 lanes[j], for each column
  void (*bit_add)(const BitExamples& rows, const float* d, float* lanes) = nullptr;
  /// sums_j = Σ of 16 lanes[j], overwritten. \param count rounded up to 16, in both arrays
  void (*add_up_lanes)(const float* lanes, Count count, float* sums) = nullptr;

  // linear_dense.cpp
  // ----------------
  void (*dense_margins)(const DenseExamples& rows, const MarginVector& w, const MarginVector& v, float* z, float* u);
  /// g += Σ_i d_i x_i
  void (*dense_add)(const DenseExamples& rows, const float* d, float* g);
};

}  // namespace unisono::kernels::cpu
