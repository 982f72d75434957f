// A pooled convolution has the bits of a convolution, a pooling and a ReLU one after the other.
#include "cpu_fixture.hpp"
#include "square_kernel.hpp"

namespace unisono::kernels::cpu {
namespace {

struct Case {
  ConvolutionSpec spec;
  Index batch;
  Write write;
  bool wants_dx, wants_dw;
  PoolSpec pool() const { return {.in = spec.out()}; }
  Index weights() const {
    return spec.channels * spec.in.channels / spec.groups * spec.kernel_height * spec.kernel_width;
  }
};

/// y, dx, dw, db.
Outputs run(CpuBackend& backend, const Case& c, bool pooled) {
  const Shape in{c.spec.in, c.batch}, middle{c.spec.out(), c.batch}, out{c.pool().out(), c.batch};
  const Buffer x = to_device(backend, in, coarse_floats(in.size(), 1));
  const Floats w = coarse_floats(c.weights(), 2), b = coarse_floats(c.spec.channels, 3);
  Buffer dy = to_device(backend, out, random_floats(out.size(), 4));
  Buffer y = fresh(backend, out), dx = fresh(backend, in);
  Floats dw = random_floats(c.weights(), 5), db = random_floats(c.spec.channels, 6);
  const MutableView wanted_dx = c.wants_dx ? dx.view() : MutableView{};
  const MutableView wanted_dw = c.wants_dw ? MutableView(dw) : MutableView{};
  if (pooled) {
    Buffer places(backend.activation_size(pooled_places(c.pool()), c.batch)), unkept = fresh(backend, out);
    backend.pooled_convolution_forward(c.spec, c.pool(), c.batch, x.view(), w, b, y.view(), places.view());
    backend.pooled_convolution_forward(c.spec, c.pool(), c.batch, x.view(), w, b, unkept.view(), {});
    CHECK(from_device(backend, out, unkept) == from_device(backend, out, y));
    backend.pooled_convolution_backward(c.spec, c.pool(), c.batch, x.view(), w, places.view(), dy.view(), wanted_dx,
                                        wanted_dw, db, c.write);
  } else {
    ConvolutionSpec plain = c.spec;
    plain.activation = Activation::none;
    Buffer values = fresh(backend, middle), dvalues = fresh(backend, middle), maxima = fresh(backend, out);
    backend.convolution_forward(plain, c.batch, x.view(), w, b, values.view());
    backend.pool_forward(c.pool(), c.batch, values.view(), maxima.view());
    backend.activation_forward(c.spec.activation, out.extent, c.batch, maxima.view(), y.view());
    backend.activation_backward(c.spec.activation, out.extent, c.batch, maxima.view(), y.view(), dy.view(), dy.view());
    backend.pool_backward(c.pool(), c.batch, values.view(), maxima.view(), dy.view(), dvalues.view());
    backend.convolution_backward(plain, c.batch, x.view(), w, {}, dvalues.view(), wanted_dx, wanted_dw, db, c.write);
  }
  return {{from_device(backend, out, y), from_device(backend, in, dx), dw, db}, {}};
}

ConvolutionSpec with(ConvolutionSpec spec, Activation activation, Index groups = 1) {
  spec.activation = activation;
  spec.groups = groups;
  return spec;
}

TEST_CASE("a pooled convolution has the bits of a convolution, a pooling and a ReLU", "[convolution][pool]") {
  const std::vector<ConvolutionSpec> specs = {
      with(square_kernel({1, 12, 12}, 20, 5, 1, 0), Activation::relu),
      with(square_kernel({3, 6, 6}, 5, 3, 1, 1), Activation::none),
      with(square_kernel({16, 8, 8}, 32, 3, 1, 1), Activation::relu),  // by Winograd's method
      with(square_kernel({4, 7, 7}, 6, 3, 2, 1), Activation::relu, 2),
      with(square_kernel({6, 6, 6}, 6, 3, 1, 1), Activation::relu, 6),  // depthwise
      with(square_kernel({5, 4, 4}, 7, 3, 1, 0), Activation::relu),     // to a single pixel
      with(square_kernel({16, 4, 4}, 16, 3, 1, 0), Activation::relu),
  };
  using Layout = std::optional<Innermost>;
  for (const InstructionSet set : available_instruction_sets()) {
    for (const Layout& innermost : {Layout(), Layout(Innermost::examples), Layout(Innermost::channels)}) {
      for (const ConvolutionSpec& spec : specs) {
        for (const Index batch : {1, 3, 5, 8, 17, 70}) {
          for (const auto& [wants_dx, wants_dw] : {std::pair(true, true), {false, true}, {false, false}}) {
            const Case c{spec, batch, batch % 2 == 0 ? Write::add : Write::overwrite, wants_dx, wants_dw};
            INFO(loops_for(set).name << ", " << spec.in.channels << " × " << spec.in.height << " → " << spec.channels
                                     << ", batch " << batch << ", innermost "
                                     << (!innermost                          ? "by shape"
                                         : *innermost == Innermost::examples ? "examples"
                                                                             : "channels")
                                     << (wants_dx ? ", dx" : "") << (wants_dw ? ", dW" : "") << ", db");
            CpuBackend one({.instruction_set = set, .methods = {.innermost = innermost}});
            CpuBackend three({.threads = 3, .instruction_set = set, .methods = {.innermost = innermost}});
            const Outputs apart = run(one, c, false);
            CHECK(same_bits(apart, run(one, c, true)));
            CHECK(same_bits(apart, run(three, c, true)));
          }
        }
      }
    }
  }
}

TEST_CASE("which poolings a convolution can take in", "[pool]") {
  const Extent even{3, 6, 4};
  CHECK(takes_maxima_of_four({.in = even}));
  CHECK_FALSE(takes_maxima_of_four({.kind = PoolKind::average, .in = even}));
  CHECK_FALSE(takes_maxima_of_four({.in = {3, 5, 4}}));
  CHECK_FALSE(takes_maxima_of_four({.in = {3, 4, 5}}));
  CHECK_FALSE(takes_maxima_of_four({.in = even, .height = 3}));
  CHECK_FALSE(takes_maxima_of_four({.in = even, .width = 3}));
  CHECK_FALSE(takes_maxima_of_four({.in = even, .stride_height = 1}));
  CHECK_FALSE(takes_maxima_of_four({.in = even, .stride_width = 1}));
  CHECK_FALSE(takes_maxima_of_four({.in = even, .padding_height = 1}));
  CHECK_FALSE(takes_maxima_of_four({.in = even, .padding_width = 1}));
  CHECK_FALSE(takes_maxima_of_four({.in = even, .out_height = 2, .out_width = 2}));
}

}  // namespace
}  // namespace unisono::kernels::cpu
