#include "cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {

CudaBackend::CudaBackend(int device, Precision precision)
    : device_(device),
      precision_(precision),
      products_(precision),
      convolutions_(precision),
      workspace_(device_.memory()),
      partials_(device_.memory()),
      values_(device_.memory()),
      rounded_(device_.memory()) {}

std::string CudaBackend::description() const {
  const bool unusual = stores_halves(precision_) && convolutions_.weight_gradients() == WeightGradients::fp32;
  return fmt::format("{}{}, {}", device_.name(), unusual ? ", weight gradients in fp32" : "", name_of(precision_));
}

}  // namespace unisono::kernels::cuda

namespace unisono::kernels {

std::unique_ptr<Backend> make_cuda_backend(int device, Precision precision) {
  return std::make_unique<cuda::CudaBackend>(device, precision);
}

}  // namespace unisono::kernels
