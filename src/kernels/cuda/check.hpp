#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

// One check per C API: each throws a DeviceError with the call and what the library says of its failure.

namespace unisono::kernels::cuda {

void check(cudaError_t error, const char* call);
void check(cublasStatus_t status, const char* call);
void check(cudnnStatus_t status, const char* call);

}  // namespace unisono::kernels::cuda
