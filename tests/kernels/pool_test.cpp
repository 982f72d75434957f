#include "cpu_fixture.hpp"
#include "reference_pool.hpp"

namespace unisono::kernels::cpu {
namespace {

/// Windows that tile the image, overlap, leave gaps, and reach into the padding; those that fit into an image.
std::vector<PoolSpec> windows(PoolKind kind, const Extent& in) {
  std::vector<PoolSpec> specs{{kind, in, 2, 2, 2, 2, 0, 0}, {kind, in, 2, 2, 2, 2, 1, 1}, {kind, in, 3, 3, 2, 2, 1, 1},
                              {kind, in, 3, 2, 1, 1, 1, 0}, {kind, in, 1, 2, 3, 2, 0, 1}, {kind, in, 1, 1, 1, 1, 0, 0},
                              {kind, in, 3, 3, 3, 3, 0, 1}};
  std::erase_if(specs, [](const PoolSpec& s) {
    return s.in.height + 2 * s.padding_height < s.height || s.in.width + 2 * s.padding_width < s.width;
  });
  return specs;
}

Outputs pool(CpuBackend& backend, const PoolSpec& spec, Index batch, View x, View dy) {
  const Shape in{spec.in, batch}, out{spec.out(), batch};
  const Buffer device_x = to_device(backend, in, x, 5), device_dy = to_device(backend, out, dy);
  Buffer y = fresh(backend, out), dx = fresh(backend, in);
  backend.pool_forward(spec, batch, device_x.view(), y.view());
  backend.pool_backward(spec, batch, device_x.view(), y.view(), device_dy.view(), dx.view());
  CHECK(largest_unused(backend, in, dx.view()) == 0);
  return {{from_device(backend, out, y), from_device(backend, in, dx)}, {}};
}

}  // namespace

TEST_CASE("pooling gives the reference's outputs and gradients, ties, padding and overlaps included",
          "[long][pool][shapes]") {
  for (PoolKind kind : {PoolKind::max, PoolKind::average}) {
    for (const Shape& shape : odd_shapes()) {
      for (const PoolSpec& spec : windows(kind, shape.extent)) {
        INFO(shape.text() << ", window " << spec.height << " × " << spec.width << ", kind " << static_cast<int>(kind));
        const Floats x = coarse_floats(shape.size(), 1);
        const Floats dy = random_floats(shape.batch * spec.out().size(), 2);
        const auto y = reference::pool_forward(spec, shape.batch, widen(x));
        const auto dx = reference::pool_backward(spec, shape.batch, widen(x), widen(dy));
        in_all_layouts([&](CpuBackend& backend) { return pool(backend, spec, shape.batch, x, dy); },
                       [&](const Outputs& outputs) {
                         // Numbers below 1: a maximum is exact, a mean of n has n roundings. A gradient adds up at most
                         // height · width windows, one rounding for each addition and one for the share.
                         const auto taps = static_cast<double>(spec.height * spec.width);
                         const double exact = kind == PoolKind::max ? 0 : 1;
                         CHECK(excess(outputs.tensors[0], y, exact * (taps + 1) * kRoundoff) <= 1);
                         CHECK(excess(outputs.tensors[1], dx, taps * (taps + 1) * kRoundoff) <= 1);
                       });
      }
    }
  }
}

TEST_CASE("the reference's pooling gradients are central differences", "[pool]") {
  const Extent extent{2, 5, 4};
  for (PoolKind kind : {PoolKind::max, PoolKind::average}) {
    for (const PoolSpec& spec : windows(kind, extent)) {
      const auto x = widen(random_floats(2 * extent.size(), 3));  // no two closer than the differences' step
      const auto dy = widen(random_floats(2 * spec.out().size(), 4));
      const auto f = [&](const std::vector<double>& at) { return dot(dy, reference::pool_forward(spec, 2, at)); };
      CHECK(gradient_error(f, x, reference::pool_backward(spec, 2, x, dy)) < 1e-9);
    }
  }
}

TEST_CASE("a maximum's gradient goes to the first of equal inputs", "[pool]") {
  const PoolSpec spec{PoolKind::max, {1, 2, 2}, 2, 2, 2, 2, 0, 0};
  const Floats x{3, 7, 7, 7}, dy{1.5F};
  in_all_layouts([&](CpuBackend& backend) { return pool(backend, spec, 1, x, dy); },
                 [](const Outputs& outputs) {
                   CHECK(outputs.tensors[0] == Floats{7});
                   CHECK(outputs.tensors[1] == Floats{0, 1.5F, 0, 0});
                 });
}

TEST_CASE("a maximum over a NaN is NaN, wherever in the window it stands", "[pool]") {
  const PoolSpec spec{PoolKind::max, {1, 2, 2}, 2, 2, 2, 2, 0, 0};
  for (std::size_t at = 0; at < 4; ++at) {
    Floats x{1, 2, 3, 4};
    x[at] = std::nanf("");
    for (InstructionSet set : available_instruction_sets()) {
      CpuBackend backend({.threads = 1, .instruction_set = set});
      const Buffer device = to_device(backend, {spec.in, 1}, x);
      Buffer y = fresh(backend, {spec.out(), 1});
      y.data()[0] = 0;
      backend.pool_forward(spec, 1, device.view(), y.view());
      CHECK(std::isnan(y.data()[0]));
    }
  }
}

TEST_CASE("a window all in the padding gives zero and takes no gradient", "[pool]") {
  for (PoolKind kind : {PoolKind::max, PoolKind::average}) {
    const PoolSpec spec{kind, {1, 1, 1}, 1, 1, 1, 1, 1, 1};  // 3 × 3 windows of one pixel, round one pixel
    const Floats x{2}, dy(9, 1.0F);
    in_all_layouts([&](CpuBackend& backend) { return pool(backend, spec, 1, x, dy); },
                   [](const Outputs& outputs) {
                     CHECK(outputs.tensors[0] == Floats{0, 0, 0, 0, 2, 0, 0, 0, 0});
                     CHECK(outputs.tensors[1] == Floats{1});
                   });
  }
}

TEST_CASE("pooling to any size gives the reference's outputs and gradients", "[pool]") {
  for (const PoolKind kind : {PoolKind::max, PoolKind::average}) {
    for (const Extent& in : {Extent{3, 5, 7}, Extent{16, 7, 4}}) {
      for (const Index height : {1, 2, 3, 5, 9}) {
        for (const Index width : {1, 3, 7}) {
          INFO(in.height << " × " << in.width << " to " << height << " × " << width);
          const PoolSpec spec{.kind = kind, .in = in, .out_height = height, .out_width = width};
          const Index batch = 6;
          const Floats x = coarse_floats(batch * in.size(), 1), dy = random_floats(batch * spec.out().size(), 2);
          const auto y = reference::pool_forward(spec, batch, widen(x));
          const auto dx = reference::pool_backward(spec, batch, widen(x), widen(dy));
          in_all_layouts([&](CpuBackend& backend) { return pool(backend, spec, batch, x, dy); },
                         [&](const Outputs& outputs) {
                           // As above: no window has more values than the image, and no pixel is in more windows than
                           // there are.
                           const double exact = kind == PoolKind::max ? 0 : 1;
                           const auto taps = static_cast<double>(in.height * in.width);
                           const auto seen = static_cast<double>(height * width);
                           CHECK(excess(outputs.tensors[0], y, exact * (taps + 1) * kRoundoff) <= 1);
                           CHECK(excess(outputs.tensors[1], dx, seen * (seen + 1) * kRoundoff) <= 1);
                         });
        }
      }
    }
  }
}

TEST_CASE("global average pooling is the mean over the image, and spreads gradients evenly", "[pool][shapes]") {
  for (Shape shape : odd_shapes()) {
    if (shape.extent.height == 7) shape.extent.height = 33;  // more pixels than one run of the sum
    INFO(shape.text());
    const Index planes = shape.batch * shape.extent.channels, pixels = shape.extent.height * shape.extent.width;
    const Shape pooled{{shape.extent.channels, 1, 1}, shape.batch};
    const Floats x = random_floats(shape.size(), 5), dy = random_floats(planes, 6);
    const PoolSpec whole{PoolKind::average, shape.extent, shape.extent.height, shape.extent.width, 1, 1, 0, 0};
    const auto mean = reference::pool_forward(whole, shape.batch, widen(x));
    const auto spread = reference::pool_backward(whole, shape.batch, widen(x), widen(dy));
    in_all_layouts(
        [&](CpuBackend& backend) {
          const Buffer device_x = to_device(backend, shape, x, 5), device_dy = to_device(backend, pooled, dy);
          Buffer y = fresh(backend, pooled), dx = fresh(backend, shape);
          backend.global_average_pool_forward(shape.extent, shape.batch, device_x.view(), y.view());
          backend.global_average_pool_backward(shape.extent, shape.batch, device_dy.view(), dx.view());
          CHECK(largest_unused(backend, shape, dx.view()) == 0);
          return Outputs{{from_device(backend, pooled, y), from_device(backend, shape, dx)}, {}};
        },
        [&](const Outputs& outputs) {
          // Numbers below 1: runs of at most 32 additions, then pixels / 32, then two roundings of the share.
          const double bound = (34.0 + static_cast<double>(pixels) / 32) * kRoundoff;
          CHECK(excess(outputs.tensors[0], mean, bound) <= 1);
          CHECK(excess(outputs.tensors[1], spread, 2 * kRoundoff) <= 1);
        });
  }
}

}  // namespace unisono::kernels::cpu
