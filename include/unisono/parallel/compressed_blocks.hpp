#pragma once

#include <string>
#include <vector>

#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {

/// Which floats of a gradient are compressed.
struct CompressedBlocks {
  std::vector<FloatRange> compressed;
  std::vector<FloatRange> exact;   ///< sent as they are
  std::vector<FloatRange> unsent;  ///< frozen blocks, and the unused floats between blocks
};

/// Whether blocks are compressed by their role and name: not biases and norms, nor what one of the patterns fits (see
/// ParameterLayout::matching).
std::vector<bool> blocks_to_compress(const ParameterLayout& layout, const std::vector<std::string>& exact);

/// \param compressed for each block, whether it is; frozen ones are not
CompressedBlocks divide_blocks(const ParameterLayout& layout, const std::vector<bool>& compressed);

/// Floats in all of these ranges.
Index size_of(const std::vector<FloatRange>& ranges);

/// The part of `range` that lies within another one; empty where there is none.
FloatRange common_part(const FloatRange& range, const FloatRange& other);

/// packed ← the ranges of `vector`, one behind the other, in the front of `vector` itself, too; and back.
void pack(View vector, const std::vector<FloatRange>& ranges, MutableView packed);
void unpack(View packed, const std::vector<FloatRange>& ranges, MutableView vector);

}  // namespace unisono::parallel
