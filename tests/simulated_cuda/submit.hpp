#pragma once
// A launch, without the types of its kernel.

#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "simulated_cuda/block.hpp"

namespace simulated {

struct Launch {
  Grid grid;
  const void* kernel = nullptr;           ///< its address
  const char* types = "";                 ///< its parameters, for messages
  std::shared_ptr<const void> arguments;  ///< owns what grid.arguments points to
  std::vector<const void*> pointers;      ///< the pointers among them
};

cudaError_t submit_kernel(Launch launch, cudaStream_t stream);

}  // namespace simulated
