#pragma once

// How kernels are compiled and started: by nvcc for a GPU, or as ordinary functions for the simulated device of the
// tests.
#ifdef UNISONO_SIMULATED_CUDA
#include "simulated_cuda/kernel.hpp"
#else
#include <cuda_runtime.h>
#endif

namespace unisono::kernels::cuda {

/// Blocks of threads.
struct Grid {
  dim3 blocks = 1, threads = 1;
};

/// Starts a kernel; its arguments are converted to the kernel's parameters.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream, Arguments... arguments) {
#ifdef UNISONO_SIMULATED_CUDA
  return simulated::launch(kernel, grid.blocks, grid.threads, 0, stream, arguments...);
#else
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
#endif
}

}  // namespace unisono::kernels::cuda
