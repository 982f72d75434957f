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

/// Of each row the values [begins[i], ends[i]): those of some features, or all.
struct RowParts {
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
  void (*sparse_part_margins)(const SparseExamples& rows, const RowParts& parts, const LinearWeights& weights,
                              float* z);
  /// The steps of these rows on the features of a part. \param moves [last − first] rate · ℓ'(z)
  void (*sparse_part_steps)(const SparseExamples& rows, const RowParts& parts, const LinearWork& work,
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

}  // namespace unisono::kernels::cpu
