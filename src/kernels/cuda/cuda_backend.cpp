#include "cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"

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
