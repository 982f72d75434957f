#include "cuda/check.hpp"

#include <fmt/format.h>

#include <array>

#include "cuda/libraries.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw DeviceError(fmt::format("{} failed: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error)));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("{} failed: {}", call, cublas_lt().cublasLtGetStatusString(status)));
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> detail{};
  cudnn().cudnnGetLastErrorString(detail.data(), detail.size());
  throw DeviceError(fmt::format("{} failed: {}: {}", call, cudnn().cudnnGetErrorString(status), detail.data()));
}

}  // namespace unisono::kernels::cuda
