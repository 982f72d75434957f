// What a backend tells of its GPU's work, on the simulated device, which refuses what it is told to refuse.
#include "unisono/kernels/compute_device.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "cuda/queue.hpp"
#include "simulated_cuda/control.hpp"
#include "unisono/kernels/cuda.hpp"

namespace unisono::kernels {
namespace {

using Catch::Matchers::Contains;

/// A backend, and the lines that it says.
struct Watched {
  explicit Watched(Precision precision) : backend(make_cuda_backend(0, precision)) {
    record().say_fallbacks([this](const std::string& text) { said.push_back(text); });
  }
  DeviceRecord& record() const { return dynamic_cast<DeviceRecord&>(*backend); }
  DeviceWork work() const { return record().device_work(); }
  Buffer values(Index count) const { return Buffer(count, backend->memory()); }

  std::unique_ptr<Backend> backend;
  std::vector<std::string> said;
};

/// One step of a dense layer of 32 inputs and so many units, with a bias.
void dense_step(Watched& gpu, Index units, Activation activation) {
  constexpr Index kBatch = 16, kInputs = 32;
  const DenseSpec spec{.in = {kInputs, 1, 1}, .units = units, .activation = activation};
  Buffer theta = gpu.values(kInputs * units + units), gradient = gpu.values(theta.size());
  Buffer x = gpu.values(kBatch * kInputs), y = gpu.values(kBatch * units), dy = gpu.values(kBatch * units);
  const auto weights = static_cast<std::size_t>(kInputs * units);
  gpu.backend->begin_pass(theta.view());
  const View w = View(theta.view()).first(weights), b = View(theta.view()).subspan(weights);
  gpu.backend->dense_forward(spec, kBatch, x.view(), w, b, y.view());
  gpu.backend->dense_backward(spec, kBatch, x.view(), w, y.view(), dy.view(), {}, gradient.view().first(weights),
                              gradient.view().subspan(weights), Write::overwrite);
  gpu.backend->device()->synchronise();
}

void convolution_step(Watched& gpu, const ConvolutionSpec& spec, Index batch) {
  const Index weights = spec.channels * spec.in.channels * spec.kernel_height * spec.kernel_width;
  Buffer theta = gpu.values(weights + 64), gradient = gpu.values(theta.size());
  Buffer x = gpu.values(batch * spec.in.size()), y = gpu.values(batch * spec.out().size()), dy = gpu.values(y.size());
  gpu.backend->begin_pass(theta.view());
  const auto count = static_cast<std::size_t>(weights);
  const View w = View(theta.view()).first(count);
  const View b = View(theta.view()).subspan(count, static_cast<std::size_t>(spec.channels));
  gpu.backend->convolution_forward(spec, batch, x.view(), w, b, y.view());
  gpu.backend->convolution_backward(spec, batch, x.view(), w, y.view(), dy.view(), {}, gradient.view().first(count), {},
                                    Write::overwrite);
  gpu.backend->device()->synchronise();
}

TEST_CASE("a GPU counts its products and names its software; the CPU has no record", "[gpu][work]") {
  Watched gpu(Precision::fp32);
  dense_step(gpu, 48, Activation::relu);
  const DeviceWork work = gpu.work();
  CHECK(work.products == 2);
  CHECK(work.unfused_products == 0);
  CHECK(work.launches > 0);
  CHECK(work.fallbacks.empty());
  CHECK(gpu.said.empty());
  CHECK_THAT(work.software,
             Contains("CUDA 1") && Contains("driver for CUDA 1") && Contains("cuBLASLt 1") && Contains("cuDNN 9."));
  CHECK(dynamic_cast<DeviceRecord*>(make_cpu_backend(1).get()) == nullptr);
}

TEST_CASE("a product without its epilogue is counted each time, and said once", "[gpu][work]") {
  Watched gpu(Precision::bf16);
  simulated::fail_next(simulated::Call::epilogue);
  for (int step = 0; step < 3; ++step) dense_step(gpu, 48, Activation::relu);
  CHECK(gpu.work().products == 6);
  CHECK(gpu.work().unfused_products == 3);
  REQUIRE(gpu.said.size() == 1);
  CHECK(gpu.said[0] ==
        "cuBLASLt has no bf16 product for a dense layer of 32 inputs and 48 units with a batch of 16 that includes the "
        "bias and ReLU: another kernel computes it");
  simulated::fail_next(simulated::Call::epilogue, 1);  // forward has its bias, backward not the bias' gradient
  dense_step(gpu, 64, Activation::none);
  CHECK(gpu.work().unfused_products == 4);
  CHECK(gpu.said.size() == 1);  // one of this kind is enough for a log
  REQUIRE(gpu.work().fallbacks.size() == 2);
  CHECK_THAT(gpu.work().fallbacks[1], Contains("64 units") && Contains("gradient of the bias"));
}

TEST_CASE("engines of convolutions are told, and that cuDNN has no fused kernel", "[gpu][work]") {
  // Only tensor cores fuse on the simulated device, and fp32 must not use them.
  Watched gpu(Precision::fp32);
  const ConvolutionSpec spec{
      .in = {8, 6, 6}, .channels = 16, .kernel_height = 3, .kernel_width = 3, .activation = Activation::relu};
  convolution_step(gpu, spec, 4);
  convolution_step(gpu, spec, 4);
  const DeviceWork work = gpu.work();
  REQUIRE(work.convolutions.size() == 2);
  for (const ConvolutionEngine& engine : work.convolutions) {
    CHECK(engine.convolution == "8×6×6 → 16, 3×3, batch 4");
    CHECK(engine.engine == 0);  // the one that computes exactly
    CHECK(engine.times == 2);
    CHECK(!engine.last_resort);
    CHECK(!engine.compiled);
  }
  CHECK(work.convolutions[0].pass == "forward");
  CHECK(work.convolutions[1].pass == "weight gradient");
  REQUIRE(gpu.said.size() == 1);
  CHECK(gpu.said[0] ==
        "cuDNN has no fp32 kernel for a convolution (8×6×6 → 16, 3×3, batch 4) that includes the bias and "
        "ReLU: another kernel adds it");

  Watched halves(Precision::bf16);
  convolution_step(halves, spec, 4);
  CHECK(halves.said.empty());
  const std::vector<ConvolutionEngine> engines = halves.work().convolutions;
  REQUIRE(!engines.empty());
  CHECK(engines[0].pass == "forward, fused");
  CHECK(engines[0].engine == 1);
}

TEST_CASE("memory that cannot be pinned is told", "[gpu][work]") {
  Watched gpu(Precision::fp32);
  std::vector<float> plain(1 << 18);
  simulated::fail_next(simulated::Call::pinned_allocation);
  gpu.backend->device()->pin(plain.data(), plain.size() * sizeof(float));
  REQUIRE(gpu.said.size() == 1);
  CHECK_THAT(gpu.said[0], Contains("1.0 MiB of plain memory cannot be pinned") && Contains("ulimit -l"));
}

TEST_CASE("each text is kept once, and the first of each kind is said", "[work]") {
  cuda::Fallbacks fallbacks;
  fallbacks.note(cuda::Fallback::capture, "before anybody listens");
  std::vector<std::string> said;
  fallbacks.set_say([&said](const std::string& text) { said.push_back(text); });
  for (const char* text : {"a", "b", "a"}) fallbacks.note(cuda::Fallback::product, text);
  fallbacks.note(cuda::Fallback::engine, "c");
  CHECK(said == std::vector<std::string>{"a", "c"});
  CHECK(fallbacks.texts() == std::vector<std::string>{"before anybody listens", "a", "b", "c"});
}

}  // namespace
}  // namespace unisono::kernels
