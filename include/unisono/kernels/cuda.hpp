#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/kernels/backend.hpp"

namespace unisono::kernels {

/// How a GPU computes products. Parameters, gradients, optimizer state, losses and sums are fp32 or better with every
/// precision.
enum class Precision {
  fp32,  ///< products of fp32 numbers, as on the CPU
  tf32,  ///< products of inputs rounded to 10 bits of mantissa
  bf16,  ///< activations and products in bfloat16; parameters are rounded for each pass
};
std::string_view name_of(Precision precision);

/// A GPU that this process sees.
struct CudaDevice {
  int number = 0;        ///< CUDA's number of the GPU in this process
  std::string name;      ///< "NVIDIA H100 80GB HBM3"
  std::string identity;  ///< the same for all processes of the host that see the GPU, whatever number it has there
};

/// The GPUs that this process may use. Finding them calls the driver and never throws.
struct CudaDevices {
  std::vector<CudaDevice> devices;
  std::string missing;  ///< without devices: what is missing, and what to do
};
/// Finds the GPUs that this process may use.
CudaDevices find_cuda_devices();

/// The kernels of one GPU. \param device a number that find_cuda_devices gave
/// \throws DeviceError where a library is missing or too old
std::unique_ptr<Backend> make_cuda_backend(int device, Precision precision);

}  // namespace unisono::kernels
