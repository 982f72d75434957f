#pragma once

#include <algorithm>

#include "cpu/loop_team.hpp"
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

/// How the values of examples in canonical order, [C, H, W], are transposed to activations,
/// [block][y][x][channel][lane], and back: as `planes` planes of `positions` values. In activations, neighbouring
/// positions of a plane are stride · width floats apart.
struct Planes {
  static constexpr Index kTile = 64;  ///< positions that are transposed at a time

  Index planes, positions, stride;

  explicit Planes(const Extent& extent)
      : planes(extent.height * extent.width == 1 ? 1 : extent.channels),
        positions(extent.size() / planes),
        stride(planes) {}
  Index tiles() const { return (positions + kTile - 1) / kTile; }
  Index tiles(const Lanes& lanes) const { return lanes.blocks * planes * tiles(); }
};

/// Some positions of a plane of a block.
struct PlaneTile {
  Index number;  ///< among all
  Index block;
  Index from;  ///< where in an example's values it begins
  Index size;  ///< positions, ≤ Planes::kTile
  Index to;    ///< where in the block of activations it begins
};

/// Calls work(tile) for each tile of each plane of each block.
template <typename Work>
void for_each_tile(int threads, const Lanes& lanes, const Planes& planes, const Work& work) {
  const Index tiles = planes.tiles();
  parallel_for(threads, planes.tiles(lanes), [&](Index i) {
    const Index block = i / (planes.planes * tiles), plane = i / tiles % planes.planes;
    const Index first = i % tiles * Planes::kTile, size = std::min(Planes::kTile, planes.positions - first);
    work(PlaneTile{i, block, plane * planes.positions + first, size, (first * planes.stride + plane) * lanes.width});
  });
}

}  // namespace unisono::kernels::cpu
