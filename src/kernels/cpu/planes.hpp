#pragma once

#include <algorithm>

#include "cpu/lanes.hpp"
#include "cpu/thread_team.hpp"

namespace unisono::kernels::cpu {

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
