#include <algorithm>
#include <cassert>

#include "cpu/cpu_backend.hpp"
#include "cpu/parallel.hpp"

namespace unisono::cpu {
namespace {

constexpr Index kTile = 64;  ///< positions that are transposed at a time

/// An activation as planes to be transposed: `planes` of `positions` values, `positions · planes` in all. In memory of
/// [block][y][x][channel][lane] neighbouring positions are `stride` values of `width` lanes apart.
struct Planes {
  Index planes, positions, stride;

  explicit Planes(const Extent& extent)
      : planes(extent.height * extent.width == 1 ? 1 : extent.channels),
        positions(extent.size() / planes),
        stride(planes) {}
  Index tiles() const { return (positions + kTile - 1) / kTile; }
};

/// Calls work(block, offset of values in an example, values, offset in a block of activations) for each tile of each
/// plane of each block.
template <typename Work>
void for_each_tile(int threads, const Lanes& lanes, const Planes& planes, const Work& work) {
  const Index tiles = planes.tiles();
  parallel_for(threads, lanes.blocks * planes.planes * tiles, [&](Index i) {
    const Index block = i / (planes.planes * tiles), plane = i / tiles % planes.planes, first = i % tiles * kTile;
    const Index size = std::min(kTile, planes.positions - first);
    work(block, plane * planes.positions + first, size, (first * planes.stride + plane) * lanes.width);
  });
}

}  // namespace

Index CpuBackend::activation_size(const Extent& extent, Index batch) const {
  const Lanes lanes(batch);
  return lanes.blocks * lanes.block_size(extent);
}

std::vector<int> CpuBackend::dense_weight_axes() const { return {0, 2, 3, 1}; }
std::vector<int> CpuBackend::convolution_weight_axes() const { return {2, 0, 3, 1}; }
std::vector<int> CpuBackend::feature_axes() const { return {1, 2, 0}; }

void CpuBackend::load(const Extent& extent, Index batch, View values, MutableView x) {
  const Lanes lanes(batch);
  const Planes planes(extent);
  assert(static_cast<Index>(values.size()) == batch * extent.size());
  assert(static_cast<Index>(x.size()) >= activation_size(extent, batch));
  for_each_tile(settings_.threads, lanes, planes, [&](Index block, Index from, Index size, Index to) {
    const Index used = lanes.used(block), stride = planes.stride * lanes.width;
    float* out = x.data() + block * lanes.block_size(extent) + to;
    loops_.transpose(used, size, values.data() + block * lanes.width * extent.size() + from, extent.size(), out,
                     stride);
    if (used == lanes.width) return;
    for (Index i = 0; i < size; ++i) std::fill(out + i * stride + used, out + i * stride + lanes.width, 0.0F);
  });
}

void CpuBackend::store(const Extent& extent, Index batch, View x, MutableView values) {
  const Lanes lanes(batch);
  const Planes planes(extent);
  assert(static_cast<Index>(values.size()) == batch * extent.size());
  assert(static_cast<Index>(x.size()) >= activation_size(extent, batch));
  for_each_tile(settings_.threads, lanes, planes, [&](Index block, Index to, Index size, Index from) {
    loops_.transpose(size, lanes.used(block), x.data() + block * lanes.block_size(extent) + from,
                     planes.stride * lanes.width, values.data() + block * lanes.width * extent.size() + to,
                     extent.size());
  });
}

}  // namespace unisono::cpu
