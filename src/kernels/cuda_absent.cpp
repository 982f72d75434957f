// Compiled in place of cuda/ where there is no CUDA toolkit.
#include "unisono/base/errors.hpp"
#include "unisono/kernels/cuda.hpp"

namespace unisono::kernels {
namespace {

constexpr const char* kMissing =
    "this unisono was built without CUDA: build it where nvcc and cuDNN are installed, or set device = \"cpu\"";

}  // namespace

CudaDevices find_cuda_devices() { return {.devices = {}, .missing = kMissing}; }

std::unique_ptr<Backend> make_cuda_backend(int, Precision) { throw DeviceError(kMissing); }

}  // namespace unisono::kernels
