#include "product_case.hpp"

namespace unisono::kernels::cpu {
namespace {

ConvolutionSpec square(Index in, Index size, Index out, Index kernel, Index stride, Index padding) {
  return square_kernel({in, size, size}, out, kernel, stride, padding);
}

void check_convolution(const ConvolutionSpec& spec, const ProductOptions& options) {
  INFO("batch " << options.batch << ", " << spec.in.channels << " × " << spec.in.height << " × " << spec.in.width
                << " → " << spec.channels << ", kernel " << spec.kernel_height << " × " << spec.kernel_width
                << ", stride " << spec.stride_height << " × " << spec.stride_width << ", padding "
                << spec.padding_height << " × " << spec.padding_width << ", dilation " << spec.dilation_height << " × "
                << spec.dilation_width << ", groups " << spec.groups);
  const ProductCase c(spec, options);
  const ProductReference reference(c);
  in_all_layouts([&](CpuBackend& backend) { return run(backend, c, convolution_layer(backend, c)); },
                 [&](const Outputs& outputs) { check(c, reference, outputs); });
}

}  // namespace

TEST_CASE("a convolution gives the reference's outputs and gradients for any batch", "[convolution]") {
  for (const Index batch : kBatches) check_convolution(square(5, 5, 6, 3, 1, 1), {.batch = batch});
}

TEST_CASE("… for any number of channels", "[long][convolution]") {
  for (Index in : {1, 3, 5, 16, 20}) {
    for (Index out : {1, 3, 5, 16, 20, 50, 80}) check_convolution(square(in, 4, out, 3, 1, 1), {.batch = 17});
  }
}

// Blocks of 48 lanes do not divide the room for transposed gradients evenly.
TEST_CASE("… for batches in blocks of 48, whose rows of the output are cut into pieces", "[long][convolution]") {
  for (Index out : {16, 32, 64}) check_convolution(square(3, 14, out, 3, 1, 1), {.batch = 48});
  check_convolution(square(3, 14, 32, 3, 1, 1), {.batch = 33});
  check_convolution(square(3, 14, 16, 3, 1, 1), {.batch = 80});
}

// Of many images, parts of the rows are summed; of few with their channels innermost, all rows at once.
TEST_CASE("… for images that fit into a cache and for more, with their channels innermost", "[convolution]") {
  for (Index batch : {1, 2, 4}) check_convolution(square(20, 12, 50, 5, 1, 0), {.batch = batch});
  for (Index batch : {1, 3}) check_convolution(square(16, 40, 16, 3, 2, 1), {.batch = batch});  // 32,000 floats each
}

TEST_CASE("the gradient of a convolution's weights is the same on any number of threads", "[convolution]") {
  const auto check_threads = [](const ConvolutionSpec& spec, Index batch) {
    const ProductCase c(spec, {.batch = batch});
    const auto on = [&](int threads) {
      CpuBackend backend({.threads = threads});
      return run(backend, c, convolution_layer(backend, c));
    };
    const Outputs outputs = on(1);
    for (int threads : {2, 4, 8}) CHECK(same_bits(outputs, on(threads)));
  };
  check_threads(square(64, 8, 64, 3, 1, 1), 48);    // so many that slices of the channels are shared out
  check_threads(square(128, 4, 128, 3, 1, 1), 3);   // few tiles of Winograd's method, and two parts
  check_threads(square(128, 6, 144, 3, 2, 1), 16);  // two parts of a direct gradient
  check_threads(square(128, 3, 160, 1, 1, 0), 32);  // pixels of several images in a row
  check_threads(square(20, 12, 50, 5, 1, 0), 1);
}

TEST_CASE("… for any kernel, stride and padding", "[convolution]") {
  for (Index kernel : {1, 2, 3, 5}) {
    for (Index stride : {1, 2, 3}) {
      for (Index padding : {0, 1, 2}) check_convolution(square(3, 7, 18, kernel, stride, padding), {.batch = 3});
    }
  }
}

TEST_CASE("… for oblong images, kernels, strides, paddings and dilations", "[convolution]") {
  const ConvolutionSpec oblong{.in = {4, 9, 6},
                               .channels = 5,
                               .kernel_height = 2,
                               .kernel_width = 3,
                               .stride_height = 2,
                               .stride_width = 1,
                               .padding_height = 1,
                               .padding_width = 2,
                               .dilation_height = 3,
                               .dilation_width = 1};
  check_convolution(oblong, {.batch = 18});
  ConvolutionSpec dilated = oblong;
  dilated.dilation_width = 2;
  for (Index stride : {1, 2, 3}) {
    dilated.stride_width = stride;
    check_convolution(dilated, {.batch = 18});
  }
}

TEST_CASE("… for groups, down to one channel each", "[convolution]") {
  for (Index groups : {2, 3, 6}) {
    for (Index stride : {1, 2}) {
      ConvolutionSpec spec = square(6, 6, 12, 3, stride, 1);
      spec.groups = groups;
      check_convolution(spec, {.batch = 5});
    }
  }
  ConvolutionSpec wide = square(32, 5, 128, 3, 1, 1);  // groups of 16 and 64 channels: as products
  wide.groups = 2;
  check_convolution(wide, {.batch = 16});
  for (Index stride : {1, 2}) {
    ConvolutionSpec narrow = square(32, 5, 48, 3, stride, 1);  // groups of 4 and 6
    narrow.groups = 8;
    check_convolution(narrow, {.batch = 5});
  }
}

ConvolutionSpec depthwise(Index channels, Index size, Index kernel, Index stride, Index padding) {
  ConvolutionSpec spec = square(channels, size, channels, kernel, stride, padding);
  spec.groups = channels;
  return spec;
}

TEST_CASE("a depthwise convolution gives the reference's outputs and gradients for any batch", "[convolution]") {
  for (const Index batch : kBatches) check_convolution(depthwise(5, 6, 3, 1, 1), {.batch = batch});
  for (const Index batch : {1, 4, 5, 20}) check_convolution(depthwise(32, 6, 3, 1, 1), {.batch = batch});
}

TEST_CASE("… for any number of channels and size", "[convolution]") {
  for (Index channels : {2, 15, 16, 17, 40}) check_convolution(depthwise(channels, 5, 3, 1, 1), {.batch = 6});
  for (Index size = 1; size <= 18; ++size) check_convolution(depthwise(16, size, 3, 1, 1), {.batch = 2});
  check_convolution(depthwise(16, 70, 7, 1, 3), {.batch = 2});  // a plane that is copied in several parts
  check_convolution(depthwise(3, 40, 7, 2, 3), {.batch = 6});
}

TEST_CASE("… for any kernel, stride, padding and dilation of depthwise ones", "[convolution]") {
  for (Index kernel : {1, 2, 3, 5, 7}) {
    for (Index stride : {1, 2, 3}) {
      for (Index padding : {0, 1, 3}) check_convolution(depthwise(18, 8, kernel, stride, padding), {.batch = 3});
    }
  }
  ConvolutionSpec oblong = depthwise(16, 9, 3, 2, 1);
  oblong.in.width = 6;
  oblong.kernel_height = 2;
  oblong.stride_width = 1;
  oblong.padding_width = 4;  // more than the kernel reaches
  oblong.dilation_height = 3;
  oblong.dilation_width = 2;
  check_convolution(oblong, {.batch = 7});
}

TEST_CASE("… with fused relu, without bias, and added to what is there, of depthwise ones", "[convolution]") {
  for (Index channels : {6, 32}) {
    for (Activation activation : {Activation::none, Activation::relu}) {
      for (bool bias : {false, true}) {
        for (Write write : {Write::overwrite, Write::add}) {
          ConvolutionSpec spec = depthwise(channels, 4, 3, 1, 1);
          spec.activation = activation;
          check_convolution(spec, {.batch = 17, .bias = bias, .write = write});
        }
      }
    }
  }
}

TEST_CASE("outputs of depthwise convolutions do not depend on the batch, and nothing on the threads", "[convolution]") {
  const ProductCase many(depthwise(6, 9, 3, 1, 1), {.batch = 20});
  const auto on = [&](int threads) {
    CpuBackend backend({.threads = threads});
    return run(backend, many, convolution_layer(backend, many));
  };
  const Outputs outputs = on(1);
  for (int threads : {2, 3}) CHECK(same_bits(outputs, on(threads)));
  CpuBackend backend({.threads = 1});
  const Index size = many.in().extent.size();
  const Floats w = many.w;
  Buffer weights(many.weights());
  from_canonical(many.block(backend.convolution_weight_axes()), w, weights.view());
  for (Index batch : {1, 5}) {  // with the channels innermost, and with the examples
    const Floats some(many.x.begin(), many.x.begin() + batch * size);
    const Buffer x = [&] {
      Buffer to(backend.activation_size(many.spec.in, batch));
      backend.load(many.spec.in, batch, some, to.view());
      return to;
    }();
    Buffer y(backend.activation_size(many.spec.out(), batch));
    backend.convolution_forward(many.spec, batch, x.view(), weights.view(), many.b, y.view());
    Floats values(static_cast<std::size_t>(batch * many.spec.out().size()));
    backend.store(many.spec.out(), batch, y.view(), values);
    CHECK(std::equal(values.begin(), values.end(), outputs.tensors[0].begin()));
  }
}

TEST_CASE("… where whole rows of taps fall into the padding, or no output reaches an input", "[convolution]") {
  check_convolution(square(2, 1, 3, 3, 1, 2), {.batch = 2});  // an image of one pixel
  check_convolution(square(2, 5, 3, 1, 3, 0), {.batch = 2});  // two of three pixels are skipped
  check_convolution(square(2, 3, 3, 2, 4, 3), {.batch = 2});  // the first output sees nothing but padding
}

TEST_CASE("… with fused relu, without bias, and added to what is there", "[convolution]") {
  for (Index out : {4, 32}) {
    for (Activation activation : {Activation::none, Activation::relu}) {
      for (bool bias : {false, true}) {
        for (Write write : {Write::overwrite, Write::add}) {
          ConvolutionSpec spec = square(16, 4, out, 3, 1, 1);
          spec.activation = activation;
          check_convolution(spec, {.batch = 17, .bias = bias, .write = write});
        }
      }
    }
  }
}

TEST_CASE("gradients that are not wanted are not written, and those that are stay right", "[convolution]") {
  const ProductCase c(square(3, 5, 20, 3, 1, 1), {.batch = 5});
  CpuBackend backend({.threads = 2});
  const ProductLayer layer = convolution_layer(backend, c);
  ProductLayer partial = layer;
  partial.backward = [&](View x, View w, View y, MutableView dy, MutableView dx, MutableView dw, MutableView db) {
    Floats before(dw.begin(), dw.end());
    layer.backward(x, w, y, dy, dx, {}, {});
    CHECK(std::equal(before.begin(), before.end(), dw.begin()));
    layer.backward(x, w, y, dy, {}, dw, {});
    layer.backward(x, w, y, dy, {}, {}, db);
  };
  check(c, ProductReference(c), run(backend, c, partial));
}

TEST_CASE("the reference's gradients of a convolution are those of central differences", "[convolution]") {
  ConvolutionSpec spec = square(4, 5, 6, 3, 2, 1);
  spec.groups = 2;
  const ProductCase c(spec, {.batch = 2});
  const auto x = widen(c.x), w = widen(c.w), b = widen(c.b), dy = widen(c.dy);
  const auto gradients = reference::convolution_gradients(spec, 2, x, w, dy);
  const auto sum = [&](const auto& x_, const auto& w_, const auto& b_) {
    return dot(reference::convolution(spec, 2, x_, w_, b_), dy);
  };
  // The function is bilinear: central differences have no error but that of rounding.
  CHECK(gradient_error([&](const auto& v) { return sum(v, w, b); }, x, gradients.dx) < 1e-9);
  CHECK(gradient_error([&](const auto& v) { return sum(x, v, b); }, w, gradients.dw) < 1e-9);
  CHECK(gradient_error([&](const auto& v) { return sum(x, w, v); }, b, gradients.db) < 1e-9);
}

TEST_CASE("where parameters are fixed, what is made of weights is made once and gives the same bits", "[convolution]") {
  CpuBackend fixed({.threads = 2}), plain({.threads = 2});
  fixed.fix_parameters();
  std::vector<Buffer> weights;  // of which the device knows the addresses
  for (const ConvolutionSpec& spec : {square(3, 6, 20, 5, 1, 0), square(16, 6, 32, 3, 1, 1)}) {
    for (Index batch : {1, 3, 20}) {
      const ProductCase c(spec, {.batch = batch});
      if (batch == 1) {
        weights.emplace_back(c.weights());
        from_canonical(c.block(fixed.convolution_weight_axes()), c.w, weights.back().view());
      }
      const auto outputs = [&](CpuBackend& backend) {
        const Buffer x = to_device(backend, c.in(), c.x);
        Buffer y = fresh(backend, c.out());
        backend.convolution_forward(spec, batch, x.view(), weights.back().view(), c.b, y.view());
        return from_device(backend, c.out(), y);
      };
      const Floats expected = outputs(plain);
      CHECK(outputs(fixed) == expected);
      CHECK(outputs(fixed) == expected);
    }
  }
}

}  // namespace unisono::kernels::cpu
