// Convolutions with a maximum pooling behind them. With the examples innermost, the convolution's output is never
// stored; by other methods, it is stored in the scratch memory. The backward pass spreads the gradient to where the
// maxima came from, and goes on as that of a convolution.
#include <cassert>
#include <cstdint>

#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"
#include "cpu/pool_taps.hpp"

namespace unisono::kernels::cpu {
namespace {

ConvolutionSpec without_activation(ConvolutionSpec spec) {
  spec.activation = Activation::none;
  return spec;
}

/// Calls work(taps, block, first) for each window: `first` of its output, in floats of the whole activations.
template <typename Work>
void for_each_window(int threads, const PoolSpec& pool, const Lanes& lanes, const Work& work) {
  const Extent out = pool.out();
  const Index pixel = pool.in.channels * lanes.width;
  parallel_for(threads, lanes.blocks * out.height, [&](Index i) {
    const Index block = i / out.height, row = i % out.height;
    Taps taps(pool, pixel);
    for (Index column = 0; column < out.width; ++column) {
      work(taps.at(row, column).data(), block, (i * out.width + column) * pixel);
    }
  });
}

}  // namespace

void CpuBackend::pooled_convolution_forward(const ConvolutionSpec& spec, const PoolSpec& pool, Index batch, View x,
                                            View w, View b, MutableView y, MutableView places) {
  assert(takes_maxima_of_four(pool) && pool.in == spec.out());
  const Lanes lanes = this->lanes(pool.in, batch);
  const Extent out = pool.out();
  const MutableView to = room_in_layout(lanes.innermost(), out, batch, y, y_copy_);
  auto* const to_places = reinterpret_cast<std::uint8_t*>(places.data());
  if (method_of(spec, batch, settings_.methods) == ConvolutionMethod::examples &&
      lanes.innermost() == Innermost::examples) {
    const View from = in_layout(Innermost::examples, spec.in, batch, x, x_copy_);
    pooled_examples_forward(spec, batch, from, w, b, to, to_places);
  } else {
    const Index size = lanes.size(pool.in), pixel = pool.in.channels * lanes.width;
    const bool wanted = !places.empty();
    float* const memory = unpooled_.floats(size + (wanted ? 0 : lanes.size(out)));
    const MutableView values(memory, static_cast<std::size_t>(size));
    convolution_forward(without_activation(spec), batch, x, w, b, values);
    auto* const kept = wanted ? to_places : reinterpret_cast<std::uint8_t*>(memory + size);
    for_each_window(settings_.threads, pool, lanes, [&](const Count* taps, Index block, Index first) {
      loops_.pool.maximum_of_four(values.data() + block * lanes.block_size(pool.in), taps,
                                  spec.activation == Activation::relu, pixel, to.data() + first, kept + first);
    });
  }
  settle(lanes.innermost(), out, batch, to, y);
}

void CpuBackend::pooled_convolution_backward(const ConvolutionSpec& spec, const PoolSpec& pool, Index batch, View x,
                                             View w, View places, View dy, MutableView dx, MutableView dw,
                                             MutableView db, Write write) {
  const Lanes lanes = this->lanes(pool.in, batch);
  const View from = in_layout(lanes.innermost(), pool.out(), batch, dy, y_copy_);
  const Index size = lanes.size(pool.in), pixel = pool.in.channels * lanes.width;
  const MutableView spread(unpooled_.floats(size), static_cast<std::size_t>(size));
  const auto* const of = reinterpret_cast<const std::uint8_t*>(places.data());
  for_each_window(settings_.threads, pool, lanes, [&](const Count* taps, Index block, Index first) {
    loops_.pool.spread_to_four(of + first, from.data() + first, taps, pixel,
                               spread.data() + block * lanes.block_size(pool.in));
  });
  convolution_backward(without_activation(spec), batch, x, w, {}, spread, dx, dw, db, write);
}

}  // namespace unisono::kernels::cpu
