#pragma once

#include "unisono/kernels/in_place.hpp"

// The inner loops of models that are updated in place; loops.hpp says what all loops have in common. Several threads
// run them on one θ without locks (races.hpp).
namespace unisono::kernels::cpu {

using Count = std::ptrdiff_t;

/// Rows [first, last) of a sparse matrix and their targets; see SparseRows.
struct SparseExamples {
  const std::uint64_t* offsets = nullptr;  ///< [last + 1]
  const std::uint32_t* columns = nullptr;
  const float* values = nullptr;  ///< null: all are 1
  const float* targets = nullptr;
  Count width = 0;
  Count first = 0, last = 0;
};

/// Rows of `features` values, a stride apart, and their targets.
struct DenseExamples {
  const float* values = nullptr;
  const float* targets = nullptr;
  Count count = 0, features = 0;
  Count stride = 0;  ///< `features`, or more where these are a part of all
};

struct SoftmaxWork {
  const LinearStep& step;
  const SoftmaxWeights& weights;
  float* scratch;  ///< [weights.weights.width]
};

struct LinearWork {
  MarginLoss loss;
  const LinearStep& step;
  const LinearWeights& weights;
};

/// A window of word-vector training: the words of the context, and the outputs with their targets.
struct Window {
  const std::int32_t* context = nullptr;  ///< [words]
  Count words = 0;                        ///< 1 … kMaximumWindow
  const std::int32_t* rows = nullptr;     ///< [outputs], distinct
  const float* targets = nullptr;         ///< [outputs]
  Count outputs = 0;                      ///< 1 … kMaximumOutputs
  float rate = 0;
  bool want_loss = false;
  const std::int32_t* next_context = nullptr;  ///< [next_words] of the next window, as above
  Count next_words = 0;
  const std::int32_t* next_rows = nullptr;  ///< [next_outputs]
  Count next_outputs = 0;
};

/// Of an example, or of the features of a part, the values [begin, end).
struct ValueRange {
  Count begin, end;
};

/// Of each row the values [begins[i], ends[i]): those of some features, or all.
struct ValueRanges {
  const std::uint64_t* begins = nullptr;
  const std::uint64_t* ends = nullptr;
};

/// Targets of consecutive examples, and what their derivatives are multiplied by.
struct StepTargets {
  const float* targets = nullptr;
  const float* weights = nullptr;  ///< null: all are 1
  float rate = 0;
  Count count = 0;
};

struct InPlaceLoops {
  // linear_sparse.cpp, linear_dense.cpp, softmax_in_place.cpp: all but the number of examples is added to the sums
  void (*linear_sparse)(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums);
  /// The same with LinearStep::mini_batch above 1.
  void (*linear_sparse_batches)(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums);
  /// The same with LinearStep::row_bits, too. Null: this instruction set has no masks.
  void (*linear_bit_rows)(const SparseExamples& rows, const LinearWork& work, InPlaceSums& sums) = nullptr;
  /// z_i = b + Σ w_j x_ij over the features of a part, for the rows [first, last)
  void (*sparse_part_margins)(const SparseExamples& rows, const ValueRanges& parts, const LinearWeights& weights,
                              float* z);
  /// The steps of these rows on the features of a part. \param moves [last − first] rate · ℓ'(z)
  void (*sparse_part_steps)(const SparseExamples& rows, const ValueRanges& parts, const LinearWork& work,
                            const float* moves);
  /// moves_i = rate w_i ℓ'(z_i)
  void (*linear_moves)(MarginLoss loss, const StepTargets& of, const float* z, float* moves);
  /// Adds losses and hits to the sums.
  void (*margin_sums)(MarginLoss loss, const StepTargets& of, const float* z, InPlaceSums& sums);
  void (*linear_dense)(const DenseExamples& rows, const LinearWork& work, InPlaceSums& sums);
  /// The same two of a part of dense rows' features; weights, spreads and sums begin with that part's.
  void (*dense_part_margins)(const DenseExamples& rows, const LinearWeights& weights, float* z);
  void (*dense_part_steps)(const DenseExamples& rows, const LinearWork& work, const float* moves);
  void (*margins_sparse)(const SparseExamples& rows, const LinearWeights& weights, float* margins);
  /// Dense rows have no offsets and no columns.
  void (*softmax)(const SparseExamples& rows, const SoftmaxWork& work, InPlaceSums& sums);
  void (*softmax_margins)(const SparseExamples& rows, const SoftmaxWeights& weights, float* scratch, float* margins);

  /// Both return the loss if Window::want_loss, else 0.
  double (*skip_gram)(const Window& window, const RowMatrix& inputs, const RowMatrix& outputs);
  double (*cbow)(const Window& window, const RowMatrix& inputs, const RowMatrix& outputs);

  /// Returns the loss.
  double (*glove)(const SparseEntry* entries, Count count, const GloveStep& step, const GloveRows& words,
                  const GloveRows& contexts);

  /// Adds up the errors of `count` ratings.
  void (*factorize)(const SparseEntry* ratings, Count count, const FactorStep& step, const FactorRows& users,
                    const FactorRows& items, InPlaceSums& sums);
};

// The inner loops of linear models' passes over many examples with one θ; loops.hpp says what all loops have in common.

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
struct WeightRows {
  const float* weights = nullptr;
  const float* bias = nullptr;  ///< null: none
  Count width = 0;
};

struct LinearLoops {
  // linear_losses.cpp
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
  /// z_i = w · x_i + b for the rows [first, last), and u_i = v · x_i + c where v is not null
  void (*sparse_margins)(const SparseExamples& rows, const MarginVector& w, const MarginVector& v, float* z, float* u);
  /// The same of w and v in turn, w_0, v_0, w_1, …: one load for both.
  void (*sparse_pairs)(const SparseExamples& rows, const float* pairs, float w_bias, float v_bias, float* z, float* u);
  /// g_j += Σ_i d_i x_ij for the features j of [low, high), row by row
  void (*sparse_add)(const SparseExamples& rows, const float* d, Count low, Count high, float* g);
  /// H_jk += Σ_i d_i x_ij x_ik for the features j of [low, high) and k ≤ j, rows of `stride` floats
  void (*sparse_add_outer)(const SparseExamples& rows, const float* d, Count low, Count high, float* h, Count stride);
  /// z_i = Σ_j x_ij W_j + b, rows of W.width floats
  void (*sparse_rows)(const SparseExamples& rows, const WeightRows& w, float* z);
  /// G_j += Σ_i x_ij D_i, rows of `width` floats, for the features j of [low, high)
  void (*sparse_add_rows)(const SparseExamples& rows, const float* d, Count width, Count low, Count high, float* g);

  // linear_bits.cpp: null where the instruction set has no masks
  /// z_i = w · x_i + b for the rows [first, last)
  void (*bit_margins)(const BitExamples& rows, const MarginVector& w, float* z) = nullptr;
  /// Adds Σ_i d_i x_ij to the sum of the 16 lanes[j], for each column
  void (*bit_add)(const BitExamples& rows, const float* d, float* lanes) = nullptr;
  /// sums_j = Σ of 16 lanes[j], overwritten. \param count rounded up to 16, in both arrays
  void (*add_up_lanes)(const float* lanes, Count count, float* sums) = nullptr;

  // linear_dense.cpp
  void (*dense_margins)(const DenseExamples& rows, const MarginVector& w, const MarginVector& v, float* z, float* u);
  /// g += Σ_i d_i x_i
  void (*dense_add)(const DenseExamples& rows, const float* d, float* g);
};

}  // namespace unisono::kernels::cpu
