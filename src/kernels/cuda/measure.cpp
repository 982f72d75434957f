// The peak speeds of the device, with which all other speeds are compared (roofline).
#include <algorithm>
#include <vector>

#include "cuda/cuda_backend.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::kernels::cuda {
namespace {

/// An event with a time stamp.
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

/// The least of a few measured times, which was disturbed least. Each is of several runs, so that the launch of the
/// first one counts little.
template <typename Run>
double least_seconds(Queue& queue, Run run) {
  constexpr int kWarmUps = 3, kTimes = 10, kRuns = 4;
  double least = 1e9;
  for (int i = 0; i < kWarmUps + kTimes; ++i) {
    queue.submit();
    const Mark start(queue.stream());
    for (int k = 0; k < kRuns; ++k) run();
    queue.submit();
    const Mark end(queue.stream());
    const double seconds = end.seconds_since(start) / kRuns;
    if (i >= kWarmUps) least = std::min(least, seconds);
  }
  return least;
}

struct Measured {
  Index size = 0;
  double seconds = 0;
};

/// Doubles a size until it takes so many seconds, or until memory is out.
template <typename SecondsOf>
Measured measure_growing(Index smallest, Index largest, double long_enough, SecondsOf seconds_of) {
  Measured found;
  for (Index size = smallest; size <= largest && found.seconds < long_enough; size *= 2) {
    try {
      found = {size, seconds_of(size)};
    } catch (const DeviceError&) {
      if (found.size == 0) throw;
      break;
    }
  }
  return found;
}

}  // namespace

/// Peak flops per second: of a product in this precision that is large enough to keep the device busy.
double CudaBackend::measure_peak_flops_per_second() {
  const Measured found = measure_growing(512, 8192, 0.002, [this](Index n) { return seconds_of_product(n); });
  const auto side = static_cast<double>(found.size);
  return 2 * side * side * side / found.seconds;
}

/// The numbers must not be all alike: zeros are multiplied faster.
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

/// Bandwidth, of a copy too large for any cache: bytes that are read plus bytes that are written.
double CudaBackend::measure_bandwidth_bytes_per_second() {
  const Measured found =
      measure_growing(Index{1} << 18, Index{1} << 28, 0.0005, [this](Index floats) { return seconds_of_copy(floats); });
  return 2 * static_cast<double>(found.size) * sizeof(float) / found.seconds;
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

}  // namespace unisono::kernels::cuda
