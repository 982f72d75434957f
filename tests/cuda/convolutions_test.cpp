// How convolutions are planned, on the simulated device, whose cuDNN offers what the real one offers for an H100.
#include "cuda/convolutions.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "convolution_shapes.hpp"
#include "cuda/cuda_backend.hpp"
#include "operations.hpp"
#include "simulated_cuda/control.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

/// UNISONO_WEIGHT_GRADIENTS, until the end of the test.
class Chosen {
 public:
  explicit Chosen(const char* value) { setenv("UNISONO_WEIGHT_GRADIENTS", value, 1); }
  ~Chosen() { unsetenv("UNISONO_WEIGHT_GRADIENTS"); }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;
};

ConvolutionSpec three_by_three(Index in, Index out) {
  ConvolutionSpec spec{.in = {in, 6, 6}, .channels = out, .kernel_height = 3, .kernel_width = 3};
  spec.padding_height = spec.padding_width = 1;
  return spec;
}

constexpr Index kBatch = 3;

TEST_CASE("weight gradients come from tuned engines, as bf16 where none gives fp32", "[gpu][convolutions]") {
  Convolutions bf16(Precision::bf16), fp32(Precision::fp32);
  const ConvolutionSpec spec = three_by_three(8, 16);
  CHECK_FALSE(bf16.can(ConvolutionPass::weights, spec, kBatch));
  CHECK(bf16.can(ConvolutionPass::weights_small, spec, kBatch));
  CHECK(fp32.can(ConvolutionPass::weights, spec, kBatch));
  for (const Convolutions* convolutions : {&bf16, &fp32}) {
    for (const auto* planned : convolutions->plans()) {
      CHECK_FALSE(planned->plan.fallback);
      CHECK_FALSE(planned->plan.compiled);
    }
  }
}

TEST_CASE("fp32 weight gradients can be demanded of a fallback engine", "[gpu][convolutions]") {
  const Chosen chosen("fp32");
  Convolutions convolutions(Precision::bf16);
  CHECK(convolutions.can(ConvolutionPass::weights, three_by_three(8, 16), kBatch));
  CHECK(convolutions.plans().back()->plan.fallback);
  CHECK(convolutions.plans().back()->plan.result == CUDNN_DATA_FLOAT);
  // Where there is no such engine either, they are bf16.
  CHECK_FALSE(convolutions.can(ConvolutionPass::weights, three_by_three(4, 6), kBatch));
  CHECK(convolutions.can(ConvolutionPass::weights_small, three_by_three(4, 6), kBatch));
}

TEST_CASE("plans are kept in a readable form, in the order in which they were made", "[gpu][convolutions]") {
  const Chosen chosen("fp32");
  Convolutions convolutions(Precision::bf16);
  ConvolutionSpec strided = three_by_three(4, 6);
  strided.stride_height = strided.stride_width = 2;
  convolutions.can(ConvolutionPass::weights, three_by_three(8, 16), kBatch);
  convolutions.can(ConvolutionPass::weights, strided, kBatch);
  convolutions.can(ConvolutionPass::forward, three_by_three(8, 16), kBatch);
  convolutions.can(ConvolutionPass::weights, strided, kBatch);
  REQUIRE(convolutions.plans().size() == 3);
  CHECK(convolutions.plans()[0]->text() ==
        "weight gradient of 8×6×6 → 16, 3×3, batch 3: engine 70, fallback, compiled at run time, fp32, workspace 0.0 "
        "MiB");
  CHECK(convolutions.plans()[1]->text() ==
        "weight gradient of 4×6×6 → 6, 3×3, stride 2×2, batch 3: no engine that gives fp32");
  CHECK_THAT(convolutions.plans()[2]->text(),
             StartsWith("forward of 8×6×6 → 16, 3×3, batch 3: engine ") && Contains(", bf16, workspace "));
}

TEST_CASE("another word for weight gradients is an error", "[gpu][convolutions]") {
  const Chosen chosen("bf16");
  CHECK_THROWS_AS(Convolutions(Precision::bf16), ConfigError);
  CHECK_THROWS_WITH(Convolutions(Precision::bf16),
                    "UNISONO_WEIGHT_GRADIENTS is 'bf16' in the environment; it may be tuned (the default) or fp32");
}

TEST_CASE("plans take the first engine of cuDNN's list for an H100 that the precision allows", "[gpu][convolutions]") {
  // Of the first block of ResNet-20, as in cudnn_listed.inc: those that cuDNN offers for batches of any size.
  ConvolutionSpec spec{.in = {16, 32, 32}, .channels = 16, .kernel_height = 3, .kernel_width = 3};
  spec.padding_height = spec.padding_width = 1;
  const auto engine = [&](Precision precision, ConvolutionPass pass) {
    Convolutions convolutions(precision);
    convolutions.can(pass, spec, 32);
    return convolutions.plans().back()->plan.engine;
  };
  CHECK(engine(Precision::fp32, ConvolutionPass::forward) == 28);
  CHECK(engine(Precision::fp32, ConvolutionPass::data) == 74);
  CHECK(engine(Precision::tf32, ConvolutionPass::forward) == 67);
  CHECK(engine(Precision::bf16, ConvolutionPass::forward) == 45);
  CHECK(engine(Precision::bf16, ConvolutionPass::weights) == -1);
  CHECK(engine(Precision::bf16, ConvolutionPass::weights_small) == 49);
}

TEST_CASE("cuDNN has listed its engines for every convolution that is tested", "[gpu][convolutions]") {
  simulated::reset_statistics();
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto device = make_cuda_backend(0, precision);
    for (const Operation& operation : operations()) {
      if (operation.name.starts_with("convolution")) operation.run(*device);
    }
    Convolutions convolutions(precision);
    for (const ConvolutionSpec& spec : listed_convolutions()) convolutions.can(ConvolutionPass::data, spec, 7);
  }
  CHECK(simulated::statistics().convolutions > 0);
  CHECK(simulated::statistics().unlisted_graphs ==
        0);  // else add it to convolution_shapes.hpp, and see list_engines.cpp
  Convolutions(Precision::fp32).can(ConvolutionPass::data, three_by_three(5, 7), 1);
  CHECK(simulated::statistics().unlisted_graphs > 0);
}

/// The gradient of weights, of one example and one place: the products of x and dy.
std::vector<float> gradient_of_one_place(Write write) {
  CudaBackend device(0, Precision::bf16);
  const ConvolutionSpec spec{.in = {8, 1, 1}, .channels = 8};
  const std::vector<float> values = {1, 1.5F, -2, 0.25F, 3, 1.0078125F, -1.0078125F, 0};  // 1 + 2⁻⁷: exact in bf16
  const auto stored = [&] {
    Buffer x(activation_floats(Precision::bf16, 8), device.memory());
    device.load(spec.in, 1, values, x.view());
    return x;
  };
  const Buffer x = stored(), y = stored();
  Buffer dy = stored(), dw(64, device.memory());
  device.convolution_backward(spec, 1, x.view(), {}, y.view(), dy.view(), {}, dw.view(), {}, write);
  device.convolution_backward(spec, 1, x.view(), {}, y.view(), dy.view(), {}, dw.view(), {}, write);
  std::vector<float> gradient(64);
  device.memory().copy(dw.view(), gradient);
  return gradient;
}

TEST_CASE("gradients that were made as bf16 are rounded once, then converted and added in fp32",
          "[gpu][convolutions]") {
  constexpr float kSquare = 1.0078125F * 1.0078125F;  // 1 + 2⁻⁶ + 2⁻¹⁴
  constexpr float kRounded = 1.015625F;
  CHECK(gradient_of_one_place(Write::overwrite)[45] == kRounded);  // row and column 5
  CHECK(gradient_of_one_place(Write::add)[45] == 2 * kRounded);
  const Chosen chosen("fp32");
  CHECK(gradient_of_one_place(Write::overwrite)[45] == kSquare);
  CHECK(gradient_of_one_place(Write::add)[45] == 2 * kSquare);
}

TEST_CASE("a backend's description says that weight gradients are fp32 at any price", "[gpu][convolutions]") {
  CHECK(CudaBackend(0, Precision::bf16).description() == "simulated device 0, bf16");
  const Chosen chosen("fp32");
  CHECK(CudaBackend(0, Precision::bf16).description() == "simulated device 0, weight gradients in fp32, bf16");
  CHECK(CudaBackend(0, Precision::tf32).description() == "simulated device 0, tf32");
}

}  // namespace
}  // namespace unisono::kernels::cuda
