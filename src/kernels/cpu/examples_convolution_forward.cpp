#include <cassert>

#include "cpu/convolution.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/parallel.hpp"

namespace unisono::kernels::cpu {
namespace {

/// The taps of a group at an output's position: pairs of [channels][lane] of x and [O][channels] of W.
/// \returns how many positions of x a pair runs over
Index gather_taps(const Convolution& convolution, Index block, Index oy, Index ox, Index group, View x, View w,
                  Pairs& pairs) {
  const Range rows = convolution.y.elements(oy), columns = convolution.x.elements(ox);
  const Index run = convolution.runs ? columns.size() : 1;
  pairs.clear();
  for (Index ky = rows.first; ky < rows.end; ++ky) {
    for (Index kx = columns.first; kx < columns.end; kx += run) {
      const Index from = convolution.input_at(block, convolution.y.input(oy, ky), convolution.x.input(ox, kx));
      pairs.add(x.data() + from + group * convolution.in * convolution.lanes.width,
                w.data() + convolution.weight_at(group * convolution.out, ky, kx));
    }
  }
  return run;
}

}  // namespace

void CpuBackend::examples_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const Convolution convolution(spec, Lanes(batch));
  assert(static_cast<Index>(w.size()) == convolution.weights());
  const Loops& loops = loops_of(convolution.lanes);
  const Index width = convolution.lanes.width, out = convolution.out, image = convolution.y.out * convolution.x.out;
  const ProductShape common{.m = width,
                            .n = out,
                            .lda = width,
                            .ldb = convolution.taps() * convolution.in,
                            .ldc = width,
                            .relu = spec.activation == Activation::relu};
  parallel_ranges(settings_.threads, convolution.lanes.blocks * image, [&](Index first, Index end, int) {
    ProductShape shape = common;
    Pairs pairs(convolution.taps());
    for (Index i = first; i < end; ++i) {
      const Index block = i / image, oy = i % image / convolution.x.out, ox = i % convolution.x.out;
      for (Index group = 0; group < convolution.groups; ++group) {
        shape.k = gather_taps(convolution, block, oy, ox, group, x, w, pairs) * convolution.in;
        Ahead ahead{x.data(), 0, x.data(), 0};
        if (convolution.runs && pairs.count() > 0) {
          ahead = successors_of(loops, shape, pairs, convolution.in, convolution.x.stride * convolution.in * width);
        }
        loops.product(shape, pairs.a.data(), pairs.b.data(), pairs.count(),
                      b.empty() ? nullptr : b.data() + group * out,
                      y.data() + convolution.output_at(block, oy, ox) + group * out * width, &ahead);
      }
    }
  });
}

}  // namespace unisono::kernels::cpu
