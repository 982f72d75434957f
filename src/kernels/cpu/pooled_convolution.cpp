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

/// Spreads the gradient of a pooling's output to where the maxima came from, a row of its input at a time.
class RowSpreader {
 public:
  RowSpreader(const PoolSpec& pool, const Lanes& lanes, const PoolLoops& loops, View places, View dy)
      : in_(pool.in),
        pixel_(pool.in.channels * lanes.width),
        count_(lanes.blocks * pool.in.height),
        loops_(loops),
        places_(reinterpret_cast<const std::uint8_t*>(places.data())),
        dy_(dy) {}

  Index count() const { return count_; }                   ///< rows of the input, of all blocks
  Index row_floats() const { return in_.width * pixel_; }  ///< of a row of the input

  /// dx [columns][channels][lanes] = the gradient of a row of the input
  void spread(Index row, float* dx) const {
    const Count taps[2] = {0, pixel_};
    // Heights are even: rows of all blocks are pairs, too.
    const Index from = row / 2 * (in_.width / 2) * pixel_;
    const int first_tap = row % 2 == 0 ? 0 : 2;
    for (Index column = 0; column < in_.width / 2; ++column) {
      const Index at = from + column * pixel_;
      loops_.spread_to_two(places_ + at, first_tap, dy_.data() + at, taps, pixel_, dx + 2 * column * pixel_);
    }
  }

 private:
  Extent in_;
  Index pixel_, count_;
  const PoolLoops& loops_;
  const std::uint8_t* places_;
  View dy_;
};

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
  const ConvolutionSpec plain = without_activation(spec);
  const Lanes lanes = this->lanes(pool.in, batch);
  const View from = in_layout(lanes.innermost(), pool.out(), batch, dy, y_copy_);
  const RowSpreader rows(pool, lanes, loops_.pool, places, from);
  const bool by_examples = method_of(spec, batch, settings_.methods) == ConvolutionMethod::examples &&
                           lanes.innermost() == Innermost::examples;
  if (by_examples && dx.empty() && !dw.empty()) {
    const View values = in_layout(Innermost::examples, spec.in, batch, x, x_copy_);
    return examples_backward_weights(plain, batch, values, {}, {}, dw, db, write,
                                     [&rows](Index row, float* to) { rows.spread(row, to); });
  }
  const Index size = lanes.size(pool.in);
  const MutableView spread(unpooled_.floats(size), static_cast<std::size_t>(size));
  parallel_for(settings_.threads, rows.count(),
               [&](Index row) { rows.spread(row, spread.data() + row * rows.row_floats()); });
  convolution_backward(plain, batch, x, w, {}, spread, dx, dw, db, write);
}

}  // namespace unisono::kernels::cpu
