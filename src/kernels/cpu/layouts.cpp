#include <algorithm>
#include <cassert>

#include "cpu/cpu_backend.hpp"
#include "cpu/planes.hpp"

namespace unisono::kernels::cpu {

Index CpuBackend::activation_size(const Extent& extent, Index batch) const {
  const Lanes lanes(batch);
  return lanes.blocks * lanes.block_size(extent);
}

std::vector<int> CpuBackend::dense_weight_axes() const { return {0, 2, 3, 1}; }
std::vector<int> CpuBackend::convolution_weight_axes() const { return {0, 2, 3, 1}; }
std::vector<int> CpuBackend::feature_axes() const { return {1, 2, 0}; }

void CpuBackend::load(const Extent& extent, Index batch, View values, MutableView x) {
  const Lanes lanes(batch);
  const Planes planes(extent);
  assert(static_cast<Index>(values.size()) == batch * extent.size());
  assert(static_cast<Index>(x.size()) >= activation_size(extent, batch));
  for_each_tile(settings_.threads, lanes, planes, [&](const PlaneTile& tile) {
    const Index used = lanes.used(tile.block), stride = planes.stride * lanes.width;
    float* out = x.data() + tile.block * lanes.block_size(extent) + tile.to;
    loops_.transpose(used, tile.size, values.data() + tile.block * lanes.width * extent.size() + tile.from,
                     extent.size(), out, stride);
    if (used == lanes.width) return;
    for (Index i = 0; i < tile.size; ++i) std::fill(out + i * stride + used, out + i * stride + lanes.width, 0.0F);
  });
}

void CpuBackend::store(const Extent& extent, Index batch, View x, MutableView values) {
  const Lanes lanes(batch);
  const Planes planes(extent);
  assert(static_cast<Index>(values.size()) == batch * extent.size());
  assert(static_cast<Index>(x.size()) >= activation_size(extent, batch));
  for_each_tile(settings_.threads, lanes, planes, [&](const PlaneTile& tile) {
    loops_.transpose(tile.size, lanes.used(tile.block), x.data() + tile.block * lanes.block_size(extent) + tile.to,
                     planes.stride * lanes.width, values.data() + tile.block * lanes.width * extent.size() + tile.from,
                     extent.size());
  });
}

}  // namespace unisono::kernels::cpu
