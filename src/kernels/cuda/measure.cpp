// What the device can do at most: the ceilings that the rest is measured against.
#include <algorithm>
#include <vector>

#include "cuda/cuda_backend.hpp"
#include "unisono/base/random.hpp"

namespace unisono::cuda {
namespace {

/// An event that knows its time.
class Mark {
 public:
  explicit Mark(cudaStream_t stream) {
    check(cudaEventCreate(&event_), "cudaEventCreate");
    check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  ~Mark() { cudaEventDestroy(event_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  double seconds_since(const Mark& start) const {
    float milliseconds = 0;
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1000;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The least of a few times: what nothing disturbed.
template <typename Run>
double least_seconds(Queue& queue, Run run) {
  constexpr int kWarmUps = 3, kRuns = 10;
  double least = 1e9;
  for (int i = 0; i < kWarmUps + kRuns; ++i) {
    queue.submit();
    const Mark start(queue.stream());
    run();
    queue.submit();
    const Mark end(queue.stream());
    const double seconds = end.seconds_since(start);
    if (i >= kWarmUps) least = std::min(least, seconds);
  }
  return least;
}

}  // namespace

/// Of a large product in this precision, of numbers that are not all alike: zeros are multiplied faster.
double CudaBackend::measure_peak_flops_per_second() {
  const Index n = stores_halves(precision_) ? 8192 : 4096;
  Buffer a(activation_floats(precision_, n * n), memory()), b(a.size(), memory()), d(a.size(), memory());
  std::vector<float> numbers(static_cast<std::size_t>(n * n));
  RandomStream random(1, Purpose::test);
  for (float& number : numbers) number = random.uniform(-1, 1);
  const Extent extent{1, 1, n};
  load(extent, n, numbers, a.view());
  load(extent, n, numbers, b.view());
  const ProductMemory memory{
      .a = a.data(), .b = b.data(), .d = d.data(), .workspace = workspace_.take<std::byte>(Products::kWorkspaceBytes)};
  const ProductSpec product{.m = n, .n = n, .k = n, .transpose_a = true};
  const double seconds = least_seconds(queue(), [&] { products_.multiply(queue(), product, memory); });
  const auto side = static_cast<double>(n);
  return 2 * side * side * side / seconds;
}

/// Of a copy, bytes that are read and bytes that are written.
double CudaBackend::measure_bandwidth_bytes_per_second() {
  constexpr Index kFloats = Index{1} << 28;  // more than any cache holds
  Buffer from(kFloats, memory()), to(kFloats, memory());
  const double seconds = least_seconds(queue(), [&] {
    queue().add(Signature().add(from.data()).add(to.data()), [&](cudaStream_t stream) {
      check(cudaMemcpyAsync(to.data(), from.data(), kFloats * sizeof(float), cudaMemcpyDeviceToDevice, stream),
            "cudaMemcpyAsync");
    });
  });
  return 2 * static_cast<double>(kFloats) * sizeof(float) / seconds;
}

}  // namespace unisono::cuda
