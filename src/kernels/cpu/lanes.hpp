#pragma once

#include <algorithm>

#include "unisono/kernels/specs.hpp"

namespace unisono::kernels::cpu {

/// How the examples of a batch lie in memory: [block][y][x][channel][lane]. The batch is innermost, so that it is the
/// SIMD dimension and channels need no padding. Example e is lane e % width of block e / width. Lanes without an
/// example are zero after `load`; layers may leave anything finite there.
struct Lanes {
  static constexpr Index kVector = 16;   ///< floats of an AVX-512 register, of a cache line
  static constexpr Index kMaximum = 64;  ///< four registers: the block size of the products

  Index batch = 0;        ///< examples; may be 0 (a rank without any), which is one block without examples
  Index blocks = 1;       ///< at least 1
  Index width = kVector;  ///< lanes of each block, a multiple of kVector

  explicit Lanes(Index examples)
      : batch(examples),
        blocks(std::max<Index>(1, (examples + kMaximum - 1) / kMaximum)),
        width(std::max(kVector, round_up((examples + blocks - 1) / blocks))) {}

  /// Examples in a block; the lanes after them are padding.
  Index used(Index block) const { return std::clamp<Index>(batch - block * width, 0, width); }

  /// Floats of one block of activations.
  Index block_size(const Extent& extent) const { return extent.size() * width; }

 private:
  static constexpr Index round_up(Index n) { return (n + kVector - 1) / kVector * kVector; }
};

}  // namespace unisono::kernels::cpu
