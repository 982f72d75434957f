#include "cuda/find_devices.hpp"

#include <fmt/format.h>

#include <array>

#include "cuda/check.hpp"

namespace unisono::kernels {
namespace {

constexpr const char* kWayOut = "or set device = \"cpu\"";

std::string missing(cudaError_t error) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return fmt::format("no NVIDIA driver is loaded on this machine (libcuda.so); install one that knows CUDA {}, {}",
                       CUDART_VERSION / 1000, kWayOut);
  }
  if (error == cudaErrorInsufficientDriver) {
    return fmt::format("the NVIDIA driver knows CUDA {}.{}, but this program was built with CUDA {}.{}; update it, {}",
                       driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, kWayOut);
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return fmt::format("this process sees no GPU{}; {}{}",
                       visible == nullptr ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES={})", visible),
                       visible == nullptr ? "check nvidia-smi, " : "ask for one, ", kWayOut);
  }
  return fmt::format("the GPUs cannot be used: {} ({}); check nvidia-smi, {}", cudaGetErrorString(error),
                     cudaGetErrorName(error), kWayOut);
}

}  // namespace

CudaDevices find_cuda_devices() {
  CudaDevices found;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();  // it is told here
  if (error != cudaSuccess || count == 0) {
    found.missing = missing(error);
    return found;
  }
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, number) != cudaSuccess) continue;
    found.devices.push_back({.number = number, .name = properties.name, .identity = cuda::identity_of(number)});
  }
  return found;
}

std::string cuda::identity_of(int device) {
  std::array<char, 32> bus{};
  cuda::check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device), "cudaDeviceGetPCIBusId");
  return bus.data();
}

}  // namespace unisono::kernels
