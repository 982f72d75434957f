#include <algorithm>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"
#include "cpu/pool_taps.hpp"

namespace unisono::kernels::cpu {
namespace {

bool windows_overlap(const PoolSpec& spec) {
  return spec.is_adaptive() || spec.stride_height < spec.height || spec.stride_width < spec.width;
}

bool windows_cover_all(const PoolSpec& spec) {
  const auto covers = [](Index in, Index window, Index stride, Index padding) {
    return window == stride && padding == 0 && in % stride == 0;
  };
  return covers(spec.in.height, spec.height, spec.stride_height, spec.padding_height) &&
         covers(spec.in.width, spec.width, spec.stride_width, spec.padding_width);
}

/// The backward pass of some floats of every pixel of one block.
struct Gradient {
  const Loops& loops;
  const PoolSpec& spec;
  Index pixel;   ///< floats from one pixel to the next
  Index floats;  ///< of each pixel
  const float *x, *y, *dy;
  float* dx;

  void zero(Index first_row, Index last_row) const {
    for (Index p = first_row * spec.in.width; p < last_row * spec.in.width; ++p) {
      std::fill_n(dx + p * pixel, floats, 0.0F);
    }
  }

  /// dx = or += the gradient of one row of outputs.
  void row(Taps& taps, Index row, bool add) const {
    const Index width = spec.out().width;
    for (Index column = 0; column < width; ++column) {
      const std::vector<Count>& offsets = taps.at(row, column);
      const auto count = static_cast<Count>(offsets.size());
      const Index at = (row * width + column) * pixel;
      if (spec.kind == PoolKind::max) {
        loops.pool.maximum_backward(x, y + at, dy + at, offsets.data(), count, floats, add, dx);
        continue;
      }
      const float share = 1.0F / static_cast<float>(count);
      for (Count tap : offsets) loops.algebra.axpby(share, dy + at, add ? 1.0F : 0.0F, dx + tap, floats);
    }
  }
};

}  // namespace

// Both sides have the layout of the input here. Where the output is a single pixel, that is not always its own.

void CpuBackend::pool_forward(const PoolSpec& spec, Index batch, View x, MutableView y) {
  const Lanes lanes = this->lanes(spec.in, batch);
  const MutableView to = room_in_layout(lanes.innermost(), spec.out(), batch, y, y_copy_);
  pool_rows_forward(spec, lanes, x, to);
  settle(lanes.innermost(), spec.out(), batch, to, y);
}

void CpuBackend::pool_rows_forward(const PoolSpec& spec, const Lanes& lanes, View x, MutableView y) {
  const Extent out = spec.out();
  const Index pixel = spec.in.channels * lanes.width;
  const auto reduce = spec.kind == PoolKind::max ? loops_.pool.maximum : loops_.pool.mean;
  parallel_ranges(settings_.threads, lanes.blocks * out.height, [&](Index first, Index last, int) {
    Taps taps(spec, pixel);
    for (Index i = first; i < last; ++i) {
      const Index block = i / out.height, row = i % out.height;
      const float* from = x.data() + block * lanes.block_size(spec.in);
      float* to = y.data() + i * out.width * pixel;
      for (Index column = 0; column < out.width; ++column, to += pixel) {
        const std::vector<Count>& offsets = taps.at(row, column);
        if (offsets.empty()) {
          std::fill_n(to, pixel, 0.0F);  // a window that is all padding
        } else {
          reduce(from, offsets.data(), static_cast<Count>(offsets.size()), pixel, to);
        }
      }
    }
  });
}

void CpuBackend::pool_backward(const PoolSpec& spec, Index batch, View x, View y, View dy, MutableView dx) {
  const Lanes lanes = this->lanes(spec.in, batch);
  pool_rows_backward(spec, lanes, x, in_layout(lanes.innermost(), spec.out(), batch, y, x_copy_),
                     in_layout(lanes.innermost(), spec.out(), batch, dy, y_copy_), dx);
}

// Windows that do not overlap write disjoint rows, each in one pass; windows that overlap are added up by slices of a
// pixel's floats.
void CpuBackend::pool_rows_backward(const PoolSpec& spec, const Lanes& lanes, View x, View y, View dy, MutableView dx) {
  const Extent out = spec.out();
  const Index pixel = spec.in.channels * lanes.width;
  const auto gradient = [&](Index block, Index first, Index floats) {
    const Index in_at = block * lanes.block_size(spec.in) + first, out_at = block * lanes.block_size(out) + first;
    return Gradient{loops_,           spec, pixel, floats, x.data() + in_at, y.data() + out_at, dy.data() + out_at,
                    dx.data() + in_at};
  };
  if (windows_overlap(spec)) {
    const Index slice = std::max(lanes.width, Lanes::kVector), slices = (pixel + slice - 1) / slice;
    parallel_for(settings_.threads, lanes.blocks * slices, [&](Index i) {
      const Index first = i % slices * slice;
      const Gradient part = gradient(i / slices, first, std::min(slice, pixel - first));
      Taps taps(spec, pixel);
      part.zero(0, spec.in.height);
      for (Index row = 0; row < out.height; ++row) part.row(taps, row, true);
    });
    return;
  }
  const bool cover = windows_cover_all(spec);
  parallel_for(settings_.threads, lanes.blocks * out.height, [&](Index i) {
    const Index row = i % out.height, top = row * spec.stride_height - spec.padding_height;
    const Gradient part = gradient(i / out.height, 0, pixel);
    Taps taps(spec, pixel);
    if (!cover) {
      part.zero(
          row == 0 ? 0 : std::clamp<Index>(top, 0, spec.in.height),
          row == out.height - 1 ? spec.in.height : std::clamp<Index>(top + spec.stride_height, 0, spec.in.height));
    }
    part.row(taps, row, false);
  });
}

void CpuBackend::global_average_pool_forward(const Extent& extent, Index batch, View x, MutableView y) {
  const Lanes lanes = this->lanes(extent, batch);
  const Extent flat{extent.channels, 1, 1};
  const MutableView to = room_in_layout(lanes.innermost(), flat, batch, y, y_copy_);
  const Index pixel = extent.channels * lanes.width;
  const Index slice = std::max(lanes.width, Lanes::kVector), slices = (pixel + slice - 1) / slice;
  parallel_for(settings_.threads, lanes.blocks * slices, [&](Index i) {
    const Index block = i / slices, first = i % slices * slice;
    loops_.pool.mean_over_pixels(x.data() + block * lanes.block_size(extent) + first, extent.height * extent.width,
                                 pixel, std::min(slice, pixel - first), to.data() + block * pixel + first);
  });
  settle(lanes.innermost(), flat, batch, to, y);
}

void CpuBackend::global_average_pool_backward(const Extent& extent, Index batch, View dy, MutableView dx) {
  const Lanes lanes = this->lanes(extent, batch);
  const View from = in_layout(lanes.innermost(), {extent.channels, 1, 1}, batch, dy, y_copy_);
  const Index pixel = extent.channels * lanes.width, pixels = extent.height * extent.width;
  const float share = 1.0F / static_cast<float>(pixels);
  parallel_for(settings_.threads, lanes.blocks * pixels, [&](Index i) {
    loops_.algebra.axpby(share, from.data() + i / pixels * pixel, 0.0F, dx.data() + i * pixel, pixel);
  });
}

}  // namespace unisono::kernels::cpu
