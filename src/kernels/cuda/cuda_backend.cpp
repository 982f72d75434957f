#include "cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::kernels::cuda {
namespace {

/// CUDA's and cuBLASLt's numbers have the form major × 1000 + minor × 10, or × 10000 and × 100; cuDNN's the latter.
std::string software() {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  const std::size_t products = cublas_lt().cublasLtGetVersion(), convolutions = cudnn().cudnnGetVersion();
  return fmt::format("CUDA {}.{}, driver for CUDA {}.{}, cuBLASLt {}.{}.{}, cuDNN {}.{}.{}", runtime / 1000,
                     runtime % 1000 / 10, driver / 1000, driver % 1000 / 10, products / 10000, products / 100 % 100,
                     products % 100, convolutions / 10000, convolutions / 100 % 100, convolutions % 100);
}

}  // namespace

CudaBackend::CudaBackend(int device, Precision precision)
    : device_(device),
      precision_(precision),
      products_(precision),
      convolutions_(precision, &device_.fallbacks()),
      workspace_(device_.memory()),
      partials_(device_.memory()),
      values_(device_.memory()),
      shared_(device_.memory()),
      turns_(device_.memory()),
      rounded_(device_.memory()) {}

std::string CudaBackend::description() const {
  const bool unusual = stores_halves(precision_) && convolutions_.weight_gradients() == WeightGradients::fp32;
  return fmt::format("{}{}, {}", device_.name(), unusual ? ", weight gradients in fp32" : "", name_of(precision_));
}

DeviceWork CudaBackend::device_work() const {
  const Queue& queue = device_.queue();
  return {.software = software(),
          .launches = queue.launches(),
          .graph_launches = queue.graph_launches(),
          .graph_operations = queue.graph_operations(),
          .refused_captures = queue.refused_captures(),
          .products = products_.multiplied(),
          .unfused_products = unfused_products_,
          .convolutions = convolutions_.engines(),
          .fallbacks = device_.fallbacks().texts()};
}

}  // namespace unisono::kernels::cuda

namespace unisono::kernels {

std::unique_ptr<Backend> make_cuda_backend(int device, Precision precision) {
  return std::make_unique<cuda::CudaBackend>(device, precision);
}

}  // namespace unisono::kernels

namespace unisono::kernels::cuda {

// Dense layers by cuBLASLt. Row-major [B, I] is column-major [I][B], so that with x [I][B], W [I][O] and y [O][B]
//   forward   y = Wᵀ x + b      dx = W dy      dw = x dyᵀ, db = Σ over the batch of dy, in the same pass over dy

void CudaBackend::dense_forward(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const bool relu = spec.activation == Activation::relu;
  ProductSpec product{.m = spec.units, .n = batch, .k = spec.in.size(), .transpose_a = true};
  ProductMemory memory{.a = rounded(w), .b = x.data(), .d = y.data()};
  memory.workspace = workspace_.take<std::byte>(Products::kWorkspaceBytes);
  product.epilogue = b.empty() ? (relu ? Epilogue::relu : Epilogue::none) : relu ? Epilogue::bias_relu : Epilogue::bias;
  if (products_.can(product)) {
    if (!b.empty()) memory.bias = const_cast<void*>(rounded(b));
    products_.multiply(queue(), product, memory);
    return;
  }
  note_unfused(product, spec, batch, b.empty() ? "ReLU" : relu ? "bias and ReLU" : "bias");
  product.epilogue = Epilogue::none;
  products_.multiply(queue(), product, memory);
  add_bias(batch, spec.units, b, spec.activation, y);
}

void CudaBackend::dense_backward(const DenseSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                                 MutableView dx, MutableView dw, MutableView db, Write write) {
  const bool relu = spec.activation == Activation::relu, adds = write == Write::add;
  ProductSpec weights{.m = spec.in.size(), .n = spec.units, .k = batch, .transpose_b = true, .floats = true};
  weights.adds = adds;
  weights.epilogue = Epilogue::bias_gradient;
  // The pass that applies a ReLU's mask also sums dy.
  const bool sums_fit = !relu && !adds && !db.empty() && !dw.empty();
  const bool sums_in_product = sums_fit && products_.can(weights);
  if (sums_fit && !sums_in_product) note_unfused(weights, spec, batch, "gradient of the bias");
  mask_and_sum(batch, spec.units, relu ? y : View{}, dy, sums_in_product ? MutableView{} : db, write);
  void* const workspace = workspace_.take<std::byte>(Products::kWorkspaceBytes);
  if (!dw.empty()) {
    if (!sums_in_product) weights.epilogue = Epilogue::none;
    products_.multiply(queue(), weights,
                       {.a = x.data(),
                        .b = dy.data(),
                        .d = dw.data(),
                        .bias = sums_in_product ? db.data() : nullptr,
                        .workspace = workspace});
  }
  if (!dx.empty()) {
    products_.multiply(queue(), {.m = spec.in.size(), .n = batch, .k = spec.units},
                       {.a = rounded(w), .b = dy.data(), .d = dx.data(), .workspace = workspace});
  }
}

void CudaBackend::note_unfused(const ProductSpec& product, const DenseSpec& spec, Index batch, const char* epilogue) {
  ++unfused_products_;
  if (!unfused_.insert(product).second) return;
  device_.fallbacks().note(
      Fallback::product,
      fmt::format("cuBLASLt has no {} product for a dense layer of {} inputs and {} units with a batch of {} that "
                  "includes the {}: another kernel computes it",
                  name_of(precision_), spec.in.size(), spec.units, batch, epilogue));
}

// Convolutions by cuDNN; the bias, the activation and their gradients by kernels of our own where cuDNN cannot fuse
// them.

void CudaBackend::convolution_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const Extent out = spec.out();
  ConvolutionMemory memory{.x = x.data(), .w = rounded(w), .y = y.data()};
  const bool fused = !b.empty() && convolutions_.can_fuse(spec, batch);
  const ConvolutionPass pass = fused ? ConvolutionPass::forward_fused : ConvolutionPass::forward;
  if (fused) memory.b = rounded(b);
  void* const workspace =
      workspace_.take<std::byte>(static_cast<Index>(convolutions_.workspace_bytes(pass, spec, batch)));
  convolutions_.run(queue(), pass, spec, batch, memory, workspace);
  if (!fused) add_bias(batch * out.height * out.width, out.channels, b, spec.activation, y);
}

void CudaBackend::convolution_backward(const ConvolutionSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                                       MutableView dx, MutableView dw, MutableView db, Write write) {
  const Extent out = spec.out();
  const bool relu = spec.activation == Activation::relu;
  mask_and_sum(batch * out.height * out.width, out.channels, relu ? y : View{}, dy, db, write);
  if (!dw.empty()) convolution_weights(spec, batch, x, dy, dw, write);
  if (dx.empty()) return;
  const auto bytes = static_cast<Index>(convolutions_.workspace_bytes(ConvolutionPass::data, spec, batch));
  convolutions_.run(queue(), ConvolutionPass::data, spec, batch, {.x = dx.data(), .w = rounded(w), .y = dy.data()},
                    workspace_.take<std::byte>(bytes));
}

/// Where cuDNN has no kernel with a result in floats that is wanted, or dw must be added to, its result goes to a
/// temporary buffer and is converted from there.
void CudaBackend::convolution_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw,
                                      Write write) {
  const bool floats = convolutions_.can(ConvolutionPass::weights, spec, batch);
  const ConvolutionPass pass = floats ? ConvolutionPass::weights : ConvolutionPass::weights_small;
  const bool direct = floats && write == Write::overwrite;
  const auto size = static_cast<Index>(dw.size());
  float* const result = direct ? dw.data() : values_.take<float>(size);
  const auto bytes = static_cast<Index>(convolutions_.workspace_bytes(pass, spec, batch));
  convolutions_.run(queue(), pass, spec, batch, {.x = x.data(), .w = result, .y = dy.data()},
                    workspace_.take<std::byte>(bytes));
  if (!direct) take_gradient(result, floats, dw, write);
}

// The peak speeds of the device, with which all other speeds are compared (roofline).

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
