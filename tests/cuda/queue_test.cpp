// What the queue makes of a sequence of kernels, on the simulated device.
#include "cuda/queue.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "cuda/cuda_device.hpp"
#include "cuda/device_code.hpp"
#include "simulated_cuda/control.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

__global__ void add_number(std::int64_t n, const float* number, float* x) {
  const std::int64_t i = thread_number();
  if (i < n) x[i] += *number;
}
__global__ void add_values(std::int64_t n, const float* const* values, float* x) {
  const std::int64_t i = thread_number();
  if (i < n) x[i] += (*values)[i];
}

constexpr Index kSize = 100;
const Grid kGrid{.blocks = 1, .threads = 128};

std::vector<float> values_of(CudaDevice& device, View there) {
  std::vector<float> values(there.size());
  device.memory().copy(there, values);
  return values;
}

TEST_CASE("a sequence that comes again becomes a graph, whatever numbers it is given", "[gpu][queue]") {
  CudaDevice device(0);
  Queue& queue = device.queue();
  Buffer x(kSize, device.memory());
  float sum = 0;
  for (int step = 0; step < 10; ++step) {
    for (const float part : {1.0F, 0.5F}) {
      const float number = part * static_cast<float>(step);
      queue.launch(add_number, kGrid, kSize, queue.stage(number), x.data());
      sum += number;
    }
    queue.submit();
  }
  CHECK(values_of(device, x.view()) == std::vector<float>(kSize, sum));
  CHECK(queue.graph_launches() == 6);  // the first two of each area were started kernel by kernel
  CHECK(queue.launches() == 8);
  CHECK(queue.graph_operations() == 12);
  CHECK(queue.refused_captures() == 0);
  CHECK(device.fallbacks().texts().empty());
}

TEST_CASE("other arguments, kernels or lengths are other sequences", "[gpu][queue]") {
  CudaDevice device(0);
  Queue& queue = device.queue();
  Buffer x(kSize, device.memory()), y(kSize, device.memory());
  for (int step = 0; step < 6; ++step) {
    queue.launch(add_number, kGrid, Index{step}, queue.stage(1.0F), x.data());
    queue.submit();
  }
  CHECK(queue.graph_launches() == 0);
  for (int step = 0; step < 6; ++step) {  // two sequences in turn
    queue.launch(add_number, kGrid, kSize, queue.stage(1.0F), step % 2 == 0 ? x.data() : y.data());
    queue.submit();
  }
  CHECK(queue.graph_launches() == 2);
  std::vector<float> expected(kSize, 3);
  CHECK(values_of(device, y.view()) == expected);
  for (std::size_t i = 0; i < 5; ++i) expected[i] += static_cast<float>(5 - i);
  CHECK(values_of(device, x.view()) == expected);
}

TEST_CASE("uploads arrive though the host goes on, and their memory is the caller's after submit", "[gpu][queue]") {
  CudaDevice device(0);
  Queue& queue = device.queue();
  const Index size = GENERATE(Index{100}, Index{100'000});  // staged; copied by the copy engine
  Buffer x(size, device.memory()), pinned(size, device.pinned());
  float sum = 0;
  for (int step = 1; step <= 12; ++step) {
    std::ranges::fill(pinned.view(), static_cast<float>(step));
    const auto* const uploaded = queue.upload(std::span<const float>(pinned.view()));
    queue.launch(add_values, {.blocks = static_cast<unsigned>(size / 100 + 1), .threads = 100}, size, uploaded,
                 x.data());
    queue.submit();
    sum += static_cast<float>(step);
  }
  CHECK(values_of(device, x.view()) == std::vector<float>(static_cast<std::size_t>(size), sum));
  CHECK(queue.graph_launches() == 8);
}

TEST_CASE("a step of many kernels waits for nothing", "[gpu][queue]") {
  CudaDevice device(0);
  Queue& queue = device.queue();
  Buffer x(kSize, device.memory());
  device.synchronise();
  simulated::reset_statistics();
  for (int step = 0; step < 3; ++step) {  // the third fills the first one's area again
    for (int i = 0; i < 50; ++i) queue.launch(add_number, kGrid, kSize, queue.stage(1.0F), x.data());
    queue.submit();
  }
  CHECK(simulated::statistics().copies_to_host == 0);
  CHECK(simulated::statistics().kernels <= 100);  // the last step at least has not been waited for
  CHECK(values_of(device, x.view()) == std::vector<float>(kSize, 150));
}

TEST_CASE("more numbers than are staged at a time are submitted in parts", "[gpu][queue]") {
  CudaDevice device(0);
  Queue& queue = device.queue();
  Buffer x(kSize, device.memory());
  const std::vector<float> many(20'000, 1);  // 80 KB each
  for (int i = 0; i < 40; ++i) {
    queue.launch(add_number, kGrid, kSize, queue.stage(std::span<const float>(many)), x.data());
  }
  CHECK(values_of(device, x.view()) == std::vector<float>(kSize, 40));
  const std::vector<float> too_many(400'000, 1);
  CHECK_THROWS_AS(queue.stage(std::span<const float>(too_many)), DeviceError);
}

TEST_CASE("a kernel that cannot start is an error that names the call", "[gpu][queue]") {
  CudaDevice device(0);
  Queue& queue = device.queue();
  Buffer x(kSize, device.memory());
  simulated::fail_next(simulated::Call::launch);
  queue.launch(add_number, kGrid, kSize, queue.stage(1.0F), x.data());
  CHECK_THROWS_WITH(queue.submit(), Catch::Matchers::Contains("a kernel's launch failed"));
}

TEST_CASE("a sequence that cannot be recorded runs kernel by kernel, and that is said", "[gpu][queue]") {
  for (const auto refusal : {simulated::Call::capture, simulated::Call::launch, simulated::Call::instantiation}) {
    CudaDevice device(0);
    Queue& queue = device.queue();
    std::vector<std::string> said;
    device.fallbacks().set_say([&said](const std::string& text) { said.push_back(text); });
    Buffer x(kSize, device.memory());
    for (int step = 1; step <= 7; ++step) {
      queue.launch(add_number, kGrid, kSize, queue.stage(1.0F), x.data());
      queue.launch(add_number, kGrid, kSize, queue.stage(2.0F), x.data());
      if (step == 5) simulated::fail_next(refusal, refusal == simulated::Call::launch ? 1 : 0);
      queue.submit();
    }
    CHECK(values_of(device, x.view()) == std::vector<float>(kSize, 21));
    CHECK(queue.graph_launches() == 1);  // with the other area of staged memory, at step 6
    CHECK(queue.graph_operations() == 2);
    CHECK(queue.launches() == 12);
    CHECK(queue.refused_captures() == 1);
    REQUIRE(said.size() == 1);
    CHECK_THAT(said[0], Catch::Matchers::Contains("a sequence of 2 operations cannot be recorded as a CUDA graph"));
    CHECK(device.fallbacks().texts() == said);
  }
}

TEST_CASE("work of others is started at once, behind what was asked for, and never recorded", "[gpu][queue]") {
  CudaDevice device(0);
  Queue& queue = device.queue();
  Buffer x(kSize, device.memory()), y(kSize, device.memory());
  for (int step = 1; step <= 6; ++step) {
    queue.launch(add_number, kGrid, kSize, queue.stage(1.0F), x.data());
    cudaMemcpyAsync(y.data(), x.data(), kSize * sizeof(float), cudaMemcpyDeviceToDevice,
                    static_cast<cudaStream_t>(device.submit()));
    queue.launch(add_number, kGrid, kSize, queue.stage(1.0F), x.data());
    queue.submit();
  }
  CHECK(queue.graph_launches() > 0);
  CHECK(values_of(device, y.view()) == std::vector<float>(kSize, 11));
  CHECK(values_of(device, x.view()) == std::vector<float>(kSize, 12));
}

TEST_CASE("pinned memory that was given back is given out again, zeroed", "[gpu][queue]") {
  CudaDevice device(0);
  const float* first = nullptr;
  {
    Buffer x(kSize, device.pinned());
    first = x.data();
    std::ranges::fill(x.view(), 1.0F);
  }
  const Buffer again(kSize, device.pinned());
  CHECK(again.data() == first);
  CHECK(std::ranges::count(again.view(), 0.0F) == kSize);
}

TEST_CASE("new memory is zero, and what still reads given back memory comes first", "[gpu][queue]") {
  CudaDevice device(0);
  Queue& queue = device.queue();
  for (int i = 0; i < 5; ++i) {
    Buffer x(kSize, device.memory());
    CHECK(values_of(device, x.view()) == std::vector<float>(kSize, 0));
    queue.launch(add_number, kGrid, kSize, queue.stage(1.0F), x.data());
  }
  Buffer other(kSize, device.memory());
  CHECK(values_of(device, other.view()) == std::vector<float>(kSize, 0));
}

}  // namespace
}  // namespace unisono::kernels::cuda
