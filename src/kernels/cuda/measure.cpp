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

/// Of a product in this precision that is large enough to keep the device busy.
double CudaBackend::measure_peak_flops_per_second() {
  constexpr Index kSmallest = 512, kLargest = 8192;
  constexpr double kLongEnough = 0.002;
  for (Index n = kSmallest;; n *= 2) {
    const double seconds = seconds_of_product(n);
    const auto side = static_cast<double>(n);
    if (seconds >= kLongEnough || n == kLargest) return 2 * side * side * side / seconds;
  }
}

/// Of numbers that are not all alike: zeros are multiplied faster.
double CudaBackend::seconds_of_product(Index n) {
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
  return least_seconds(queue(), [&] { products_.multiply(queue(), product, memory); });
}

/// Of a copy that takes long enough for no cache to hold it: bytes that are read and bytes that are written.
double CudaBackend::measure_bandwidth_bytes_per_second() {
  constexpr Index kSmallest = Index{1} << 22, kLargest = Index{1} << 28;
  constexpr double kLongEnough = 0.0005;
  for (Index floats = kSmallest;; floats *= 2) {
    const double seconds = seconds_of_copy(floats);
    if (seconds >= kLongEnough || floats == kLargest) return 2 * static_cast<double>(floats) * sizeof(float) / seconds;
  }
}

double CudaBackend::seconds_of_copy(Index floats) {
  Buffer from(floats, memory()), to(floats, memory());
  const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
  return least_seconds(queue(), [&] {
    queue().add(Signature().add(from.data()).add(to.data()).add(bytes), [&, bytes](cudaStream_t stream) {
      check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
    });
  });
}

}  // namespace unisono::cuda
