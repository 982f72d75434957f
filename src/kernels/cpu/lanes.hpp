#pragma once

#include <algorithm>

#include "unisono/kernels/specs.hpp"

namespace unisono::kernels::cpu {

/// The dimension of activations that is contiguous in memory.
enum class Innermost { examples, channels };

/// How the examples of a batch lie in memory: [block][y][x][channel][lane]. Example e is lane e % width of block e /
/// width. There are two such layouts:
///
/// * examples innermost: `width` is a multiple of kVector, or kNarrow for a batch of so few examples. The batch is the
///   SIMD dimension, so that channels need no padding, whatever their number. Lanes without an example are zero after
///   `load`; layers may leave anything finite there.
/// * channels innermost: a block is one example, and `width` is 1. Channels are the SIMD dimension.
struct Lanes {
  static constexpr Index kVector = 16;   ///< floats of an AVX-512 register, of a cache line
  static constexpr Index kNarrow = 8;    ///< floats of an AVX2 register
  static constexpr Index kMaximum = 64;  ///< four registers: the block size of the products

  Index batch = 0;        ///< examples; may be 0 (a rank without any)
  Index blocks = 1;       ///< without examples: 1 block of empty lanes, or none with channels innermost
  Index width = kVector;  ///< lanes of each block

  /// Examples innermost.
  explicit Lanes(Index examples)
      : batch(examples),
        blocks(std::max<Index>(1, (examples + kMaximum - 1) / kMaximum)),
        width(examples <= kNarrow ? kNarrow : round_up((examples + blocks - 1) / blocks)) {}
  static Lanes channels_innermost(Index examples) { return {examples, examples, 1}; }

  static Lanes of(Innermost layout, Index examples) {
    return layout == Innermost::channels ? channels_innermost(examples) : Lanes(examples);
  }

  Innermost innermost() const { return width == 1 ? Innermost::channels : Innermost::examples; }

  /// Examples in a block; the lanes after them are padding.
  Index used(Index block) const { return std::clamp<Index>(batch - block * width, 0, width); }

  /// Floats of one block of activations.
  Index block_size(const Extent& extent) const { return extent.size() * width; }
  /// Floats of all blocks, rounded up to whole vectors. At least one: an empty view is an argument that is not wanted.
  Index size(const Extent& extent) const { return std::max(kVector, round_up(blocks * block_size(extent))); }

  static constexpr Index round_up(Index n) { return (n + kVector - 1) / kVector * kVector; }

 private:
  Lanes(Index examples, Index blocks_, Index width_) : batch(examples), blocks(blocks_), width(width_) {}
};

}  // namespace unisono::kernels::cpu
