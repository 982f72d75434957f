#pragma once

#include <cstdint>
#include <vector>

#include "cpu/linear_chunks.hpp"

namespace unisono::kernels::cpu {

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
