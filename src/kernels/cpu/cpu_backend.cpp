#include "cpu/cpu_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <vector>

namespace unisono::kernels {

namespace cpu {

CpuBackend::CpuBackend(const CpuSettings& settings)
    : settings_(settings),
      loops_(loops_for(settings.instruction_set)),
      narrow_loops_(narrow_loops_for(settings.instruction_set)) {
  assert(settings.threads >= 1);
}
CpuBackend::~CpuBackend() = default;

std::string CpuBackend::description() const {
  return fmt::format("CPU, {}, {} thread{}", loops_.name, settings_.threads, settings_.threads == 1 ? "" : "s");
}

int CpuBackend::threads() const { return settings_.threads; }

Index CpuBackend::scratch_size() const {
  return packed_.size() + partials_.size() + x_copy_.size() + y_copy_.size() + dx_copy_.size() + unpooled_.size();
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  cpu::LoopTeam::of_this_thread().grow(threads);
  return std::make_unique<cpu::CpuBackend>(cpu::CpuSettings{.threads = threads});
}

bool threads_lacked_cores() { return cpu::TeamSize::was_reduced(); }

std::string cpu_instruction_set() { return cpu::loops_for(cpu::chosen_instruction_set()).name; }

}  // namespace unisono::kernels

namespace unisono::kernels::cpu {
namespace {

constexpr Index kValuesAtOnce = 64;  ///< of each example, when a layout changes

/// Calls work(example, first, size) for tiles of the pixels of each example.
template <typename Work>
void for_each_pixel_tile(int threads, const Extent& extent, Index batch, const Work& work) {
  const Index pixels = extent.height * extent.width, tiles = (pixels + Planes::kTile - 1) / Planes::kTile;
  parallel_for(threads, batch * tiles, [&](Index i) {
    const Index first = i % tiles * Planes::kTile;
    work(i / tiles, first, std::min(Planes::kTile, pixels - first));
  });
}

}  // namespace

Index CpuBackend::activation_size(const Extent& extent, Index batch) const { return lanes(extent, batch).size(extent); }

std::vector<int> CpuBackend::dense_weight_axes() const { return {0, 2, 3, 1}; }
std::vector<int> CpuBackend::convolution_weight_axes() const { return {0, 2, 3, 1}; }
std::vector<int> CpuBackend::feature_axes() const { return {1, 2, 0}; }

void CpuBackend::load(const Extent& extent, Index batch, View values, MutableView x) {
  assert(static_cast<Index>(values.size()) == batch * extent.size());
  assert(static_cast<Index>(x.size()) >= activation_size(extent, batch));
  const Lanes lanes = this->lanes(extent, batch);
  // Sizes are rounded up to whole vectors.
  std::fill(x.data() + lanes.blocks * lanes.block_size(extent), x.data() + lanes.size(extent), 0.0F);
  if (lanes.innermost() == Innermost::channels) {
    const Index pixels = extent.height * extent.width;
    for_each_pixel_tile(settings_.threads, extent, batch, [&](Index example, Index first, Index size) {
      loops_.transpose(extent.channels, size, values.data() + example * extent.size() + first, pixels,
                       x.data() + example * extent.size() + first * extent.channels, extent.channels);
    });
    return;
  }
  const Planes planes(extent);
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
  assert(static_cast<Index>(values.size()) == batch * extent.size());
  assert(static_cast<Index>(x.size()) >= activation_size(extent, batch));
  const Lanes lanes = this->lanes(extent, batch);
  if (lanes.innermost() == Innermost::channels) {
    const Index pixels = extent.height * extent.width;
    for_each_pixel_tile(settings_.threads, extent, batch, [&](Index example, Index first, Index size) {
      loops_.transpose(size, extent.channels, x.data() + example * extent.size() + first * extent.channels,
                       extent.channels, values.data() + example * extent.size() + first, pixels);
    });
    return;
  }
  const Planes planes(extent);
  for_each_tile(settings_.threads, lanes, planes, [&](const PlaneTile& tile) {
    loops_.transpose(tile.size, lanes.used(tile.block), x.data() + tile.block * lanes.block_size(extent) + tile.to,
                     planes.stride * lanes.width, values.data() + tile.block * lanes.width * extent.size() + tile.from,
                     extent.size());
  });
}

// The values of a block are in the same order, [y][x][channel], in both layouts: only the examples move.

void CpuBackend::examples_to_channels(const Extent& extent, Index batch, View x, MutableView to) {
  const Lanes lanes(batch);
  const Index size = extent.size(), tiles = (size + kValuesAtOnce - 1) / kValuesAtOnce;
  parallel_for(settings_.threads, lanes.blocks * tiles, [&](Index i) {
    const Index block = i / tiles, first = i % tiles * kValuesAtOnce, count = std::min(kValuesAtOnce, size - first);
    loops_.transpose(count, lanes.used(block), x.data() + (block * size + first) * lanes.width, lanes.width,
                     to.data() + block * lanes.width * size + first, size);
  });
}

void CpuBackend::channels_to_examples(const Extent& extent, Index batch, View x, MutableView to) {
  const Lanes lanes(batch);
  const Index size = extent.size(), tiles = (size + kValuesAtOnce - 1) / kValuesAtOnce;
  parallel_for(settings_.threads, lanes.blocks * tiles, [&](Index i) {
    const Index block = i / tiles, first = i % tiles * kValuesAtOnce, count = std::min(kValuesAtOnce, size - first);
    const Index used = lanes.used(block);
    float* const out = to.data() + (block * size + first) * lanes.width;
    loops_.transpose(used, count, x.data() + block * lanes.width * size + first, size, out, lanes.width);
    for (Index j = 0; j < count; ++j) std::fill(out + j * lanes.width + used, out + (j + 1) * lanes.width, 0.0F);
  });
}

void CpuBackend::convert(Innermost layout, const Extent& extent, Index batch, View x, MutableView to) {
  if (layout == Innermost::channels) {
    examples_to_channels(extent, batch, x, to);
  } else {
    channels_to_examples(extent, batch, x, to);
  }
}

View CpuBackend::in_layout(Innermost layout, const Extent& extent, Index batch, View x, Scratch& scratch) {
  if (x.empty() || innermost(extent, batch) == layout) return x;
  const Index size = Lanes::of(layout, batch).size(extent);
  const MutableView copy(scratch.floats(size), static_cast<std::size_t>(size));
  convert(layout, extent, batch, x, copy);
  return copy;
}

MutableView CpuBackend::room_in_layout(Innermost layout, const Extent& extent, Index batch, MutableView y,
                                       Scratch& scratch) {
  if (y.empty() || innermost(extent, batch) == layout) return y;
  const Index size = Lanes::of(layout, batch).size(extent);
  return {scratch.floats(size), static_cast<std::size_t>(size)};
}

void CpuBackend::settle(Innermost layout, const Extent& extent, Index batch, View x, MutableView y) {
  const Innermost own = innermost(extent, batch);
  if (!y.empty() && own != layout) convert(own, extent, batch, x, y);
}

}  // namespace unisono::kernels::cpu
