#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {

// The factors, whose own layout is that of flat features, are brought into the layout of the images.

void CpuBackend::channel_gate_forward(const Extent& extent, Index batch, View x, View factors, MutableView y) {
  const Lanes lanes = this->lanes(extent, batch);
  const View of = in_layout(lanes.innermost(), {extent.channels, 1, 1}, batch, factors, x_copy_);
  const Index row = extent.channels * lanes.width;
  parallel_for(settings_.threads, lanes.blocks * extent.height, [&](Index i) {
    const Index block = i / extent.height, first = i * extent.width * row;
    loops_.channel_gate.scale(extent.width, row, of.data() + block * row, x.data() + first, y.data() + first);
  });
}

void CpuBackend::channel_gate_backward(const Extent& extent, Index batch, View x, View factors, View dy, MutableView dx,
                                       MutableView dfactors) {
  if (!dfactors.empty()) {
    const Lanes lanes = this->lanes(extent, batch);
    const Extent flat{extent.channels, 1, 1};
    const MutableView to = room_in_layout(lanes.innermost(), flat, batch, dfactors, y_copy_);
    const Index row = extent.channels * lanes.width, rows = extent.height * extent.width;
    parallel_for(settings_.threads, lanes.blocks, [&](Index i) {
      const Index first = i * rows * row;
      loops_.channel_gate.sums_of_products(rows, row, x.data() + first, dy.data() + first, to.data() + i * row);
    });
    settle(lanes.innermost(), flat, batch, to, dfactors);
  }
  if (!dx.empty()) channel_gate_forward(extent, batch, dy, factors, dx);
}

}  // namespace unisono::kernels::cpu
