// The tables of cuBLASLt and cuDNN for the simulated device, whose functions are linked.
#include "cuda/libraries.hpp"

namespace unisono::kernels::cuda {

#define UNISONO_TAKE(function) .function = ::function,

const CublasLt& cublas_lt() {
  static const CublasLt table = {UNISONO_CUBLASLT_FUNCTIONS(UNISONO_TAKE)};
  return table;
}

const Cudnn& cudnn() {
  static const Cudnn table = {UNISONO_CUDNN_FUNCTIONS(UNISONO_TAKE)};
  return table;
}

}  // namespace unisono::kernels::cuda
