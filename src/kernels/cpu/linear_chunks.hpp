#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cpu/loops.hpp"
#include "unisono/kernels/linear.hpp"

namespace unisono::kernels::cpu {

/// What a pass computes: the gradient, or (v not null) a product with the Hessian.
struct PassWork {
  LinearExamples examples;
  LinearLossSpec loss;
  float scale;
  LinearVector<const float> theta, v;
  LinearVector<float> out;
  const float* pairs = nullptr;  ///< of sparse rows and a product: θ and v in turn, without biases; null: not made

  const std::uint64_t* masks = nullptr;  ///< of sparse rows of ones: as BitExamples::masks; null: not made

  bool product() const { return v.weights != nullptr; }
  bool dense() const { return examples.rows == nullptr; }
  Index width() const { return loss.classes > 0 ? loss.width : 1; }
  Index first_value(Index i) const {
    return dense() ? i * examples.features
                   : static_cast<Index>(examples.rows->offsets[static_cast<std::size_t>(examples.first + i)]);
  }
  Index values() const { return first_value(examples.count) - first_value(0); }
};

/// The margins of a chunk, or what they become: derivatives, or products with second derivatives.
struct Chunk {
  float* z;
  float* u;
  std::array<float, kLossBlock> targets = {};  ///< those of labels
};

/// What a pass does with a few rows [first, last) of its examples, on the calling thread.
class LinearChunks {
 public:
  explicit LinearChunks(const Loops& loops) : loops_(loops) {}

  /// ∂ℓ/∂z of the rows, or ∂²ℓ/∂z² times the margins of v, with scale and weights, [rows][width] in the chunk's memory.
  /// Adds to `sums`. \pre at most kLossBlock rows
  const float* slopes(const PassWork& work, Index first, Index last, Chunk& chunk, PassSums& sums) const;
  /// ∂²ℓ/∂z² of the rows, with scale and weights, [rows] in the chunk's memory. Their sum is added to `sums`. \pre one
  /// margin
  const float* curvatures(const PassWork& work, Index first, Index last, Chunk& chunk, PassSums& sums) const;
  /// Adds Σ d x xᵀ over the rows to the rows [low, high) of the Hessian, and those of the bias's row.
  /// \param scaled [last − first][features]: memory for contiguous rows
  void add_outer(const PassWork& work, Index first, Index last, const float* d, Index low, Index high,
                 const LinearHessian& hessian, float* scaled) const;
  /// weights += Σ d x over the rows, for features [low, high); of contiguous rows for all.
  void add(const PassWork& work, Index first, Index last, const float* d, Index low, Index high, float* weights) const;
  /// The same by bit columns, as 16 sums of each feature; and the totals of these sums, overwritten.
  void add_bits(const PassWork& work, Index first, Index last, const float* d, float* lanes) const;
  void add_up_lanes(const float* lanes, Index features, float* weights) const {
    loops_.linear.add_up_lanes(lanes, features, weights);
  }
  bool has_bits() const { return loops_.linear.bit_margins != nullptr; }
  /// bias += Σ d with softmax. Of one margin the sum is PassSums::slope.
  static void add_bias(const PassWork& work, const float* d, Index count, float* bias);

  void settle(PassSums& sums) const { loops_.linear.settle(sums); }

 private:
  void find_margins(const PassWork& work, Index first, Index last, Chunk& chunk) const;
  const float* margin_slopes(const PassWork& work, Index first, Index last, Chunk& chunk, PassSums& sums) const;
  const float* softmax_slopes(const PassWork& work, Index first, Index last, Chunk& chunk, PassSums& sums) const;
  void find_rows(const PassWork& work, LinearVector<const float> vector, Index first, Index last, float* z) const;

  Loops loops_;
};

/// Sparse rows of ones by columns, 64 rows at a time (docs/decisions/0016-bit-columns.md).
class BitColumns {
 public:
  BitColumns(const SparseRows& rows, int threads);

  /// Whether they make passes over such rows faster: all values are 1, and not too few for the columns.
  static bool suit(const SparseRows& rows);
  /// The same, of values of any kind. \param row_values on average
  static bool suit(Index width, double row_values);
  static Index bytes(Index rows, Index width);

  /// Whether they were made from rows at this place.
  bool made_from(const SparseRows& rows) const;
  const std::uint64_t* masks() const { return masks_.data(); }  ///< as BitExamples::masks

 private:
  SparseRows rows_;
  std::vector<std::uint64_t> masks_;
};

/// Memory of a pass by bit columns, as the caller keeps it.
struct BitMemory {
  Index blocks;    ///< of rows
  float* vectors;  ///< [blocks][stride] overwritten: what each block adds to the weights
  Index stride;    ///< at least the features, a multiple of 16
  float* lanes;    ///< [threads][lane_floats(features)]
  float* margins;  ///< [threads][2][kLossBlock]
};

/// A function of the examples alone, so that the bits of results are.
Index bit_blocks(const PassWork& work);
/// A feature has 16 sums.
Index lane_floats(Index features);
/// Adds up each block of the rows. \return the blocks' sums, settled
std::vector<PassSums> pass_by_bits(const LinearChunks& chunks, const PassWork& work, int threads,
                                   const BitMemory& memory);

}  // namespace unisono::kernels::cpu
