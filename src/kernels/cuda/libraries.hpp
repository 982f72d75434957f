#pragma once

#include <cublasLt.h>
#include <cudnn.h>

// cuBLASLt and cuDNN, loaded when a GPU is first used: a run on the CPU needs neither, and is not slowed by their
// size.

namespace unisono::kernels::cuda {

#define UNISONO_CUBLASLT_FUNCTIONS(X)     \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetStatusString)              \
  X(cublasLtGetVersion)                   \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)

#define UNISONO_CUDNN_FUNCTIONS(X) \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendExecute)           \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendSetAttribute)      \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnGetErrorString)           \
  X(cudnnGetLastErrorString)       \
  X(cudnnGetVersion)               \
  X(cudnnSetStream)

#define UNISONO_MEMBER(function) decltype(&::function) function;
struct CublasLt {
  UNISONO_CUBLASLT_FUNCTIONS(UNISONO_MEMBER)
};
struct Cudnn {
  UNISONO_CUDNN_FUNCTIONS(UNISONO_MEMBER)
};
#undef UNISONO_MEMBER

/// Loaded by the first call. \throws DeviceError saying which library is missing, or too old
const CublasLt& cublas_lt();
const Cudnn& cudnn();

}  // namespace unisono::kernels::cuda
