// The gradient of a convolution's input. Each position of the input sums over the taps that read it. Along a row, these
// are the kernel's elements of one residue class modulo the stride, in descending order for ascending positions of the
// output. So W is first transposed to [I][KH][class, descending][O], which makes the taps of a row one run again.
#include "cpu/convolution.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/parallel.hpp"

namespace unisono::kernels::cpu {

void CpuBackend::examples_backward_data(const ConvolutionSpec& spec, Index batch, View w, View dy, MutableView dx) {
  const Convolution convolution(spec, Lanes(batch));
  const Index width = convolution.lanes.width, in = convolution.in, out = convolution.out, taps = convolution.taps();
  const std::vector<Index> order = element_order(convolution.x);
  float* const transposed = packed_.floats(convolution.weights());  // [groups][I][KH][KW in order][O]
  parallel_for(settings_.threads, convolution.groups * taps, [&](Index i) {
    const Index group = i / taps, ky = i % taps / convolution.x.kernel, place = i % convolution.x.kernel;
    loops_.transpose(out, in, w.data() + convolution.weight_at(group * out, ky, order[static_cast<std::size_t>(place)]),
                     taps * in, transposed + (group * in * taps + ky * convolution.x.kernel + place) * out, taps * out);
  });

  const auto rows = taps_of_inputs(convolution.y), columns = taps_of_inputs(convolution.x);
  const Index image = convolution.y.in * convolution.x.in;
  const Loops& loops = loops_of(convolution.lanes);
  const ProductShape common{.m = width, .n = in, .lda = width, .ldb = taps * out, .ldc = width};
  parallel_ranges(settings_.threads, convolution.lanes.blocks * image, [&](Index first, Index end, int) {
    ProductShape shape = common;
    Pairs pairs(taps);
    for (Index i = first; i < end; ++i) {
      const Index block = i / image, iy = i % image / convolution.x.in, ix = i % convolution.x.in;
      const auto& row = rows[static_cast<std::size_t>(iy)];
      const auto& column = columns[static_cast<std::size_t>(ix)];
      const std::size_t run = convolution.runs ? std::max<std::size_t>(1, column.size()) : 1;
      shape.k = static_cast<Index>(run) * out;
      for (Index group = 0; group < convolution.groups; ++group) {
        pairs.clear();
        for (const Tap& y : row) {
          for (std::size_t j = 0; j < column.size(); j += run) {
            pairs.add(dy.data() + convolution.output_at(block, y.position, column[j].position) + group * out * width,
                      transposed + (group * in * taps + y.element * convolution.x.kernel + column[j].place) * out);
          }
        }
        Ahead ahead{dy.data(), 0, dy.data(), 0};
        if (convolution.runs && pairs.count() > 0) {
          ahead = successors_of(loops, shape, pairs, out, out * width / convolution.x.stride);
        }
        loops.product(shape, pairs.a.data(), pairs.b.data(), pairs.count(), nullptr,
                      dx.data() + convolution.input_at(block, iy, ix) + group * in * width, &ahead);
      }
    }
  });
}

}  // namespace unisono::kernels::cpu
