#pragma once
// What cublasLt's opaque descriptors hold. Members have the types that cublasLt's attributes have.

#include <cublasLt.h>

#include <cstdint>

#include "simulated_cuda/machine.hpp"
#include "simulated_cuda/numbers.hpp"

namespace simulated {

struct MatmulDesc {
  std::int32_t compute = CUBLAS_COMPUTE_32F;
  std::int32_t scale = CUDA_R_32F;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N;
  std::int32_t transpose_b = CUBLAS_OP_N;
  std::int32_t transpose_c = CUBLAS_OP_N;
  std::int32_t fill = CUBLAS_FILL_MODE_FULL;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  std::int64_t bias_stride = 0;
  std::int32_t bias_type = -1;
  void* mask = nullptr;
  std::int64_t mask_ld = 0;
  std::int64_t mask_stride = 0;
  std::int32_t processors = 0;
};

struct MatrixLayout {
  std::uint32_t type = CUDA_R_32F;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t ld = 0;
  std::int32_t batches = 1;
  std::int64_t stride = 0;
};

struct MatmulPreference {
  std::uint32_t search = CUBLASLT_SEARCH_BEST_FIT;
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // A, B, C, D
  float waves = 0;
  std::uint64_t implementations = ~std::uint64_t{0};
};

struct MatmulHandle {
  int device = 0;
};

/// All that says what is to be computed: D = epilogue(α op(A) op(B) + β C).
struct MatmulProblem {
  MatmulDesc desc;
  MatrixLayout a, b, c, d;

  std::int64_t m() const { return static_cast<std::int64_t>(d.rows); }
  std::int64_t n() const { return static_cast<std::int64_t>(d.columns); }
  std::int64_t k() const { return static_cast<std::int64_t>(desc.transpose_a == CUBLAS_OP_N ? a.columns : a.rows); }
  bool has(std::uint32_t epilogue_bits) const { return (desc.epilogue & epilogue_bits) != 0; }
  bool writes_bias() const { return has(CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB | 16U); }
  bool uses_bias() const { return writes_bias() || has(CUBLASLT_EPILOGUE_BIAS); }
  bool uses_mask() const { return has(128U); }
  std::int64_t bias_size() const { return desc.epilogue == CUBLASLT_EPILOGUE_BGRADB ? n() : m(); }
};

/// The pointers of one product.
struct MatmulPointers {
  const void* alpha = nullptr;  ///< where they are on the device; in host mode their values are copied
  const void* beta = nullptr;
  float alpha_value = 0;
  float beta_value = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;  ///< that the algorithm uses
};

Number number_of(std::uint32_t type);

/// CUBLAS_STATUS_INVALID_VALUE for what contradicts itself, CUBLAS_STATUS_NOT_SUPPORTED for what is not simulated or
/// what cublasLt's documentation does not promise:
///   - other types than those of its table for fp32 sums; biases and their gradients have D's type
///   - epilogues that sum or mask gradients (BGRADA, BGRADB, DRELU…, …AUX) other than on tensor cores (bf16, tf32),
///   with
///     leading dimensions of whole 16 bytes, as "Tensor Core Usage" asks for; the library may do more
///   - matrices that a leading dimension spreads over more than 2³¹ - 1 elements
cublasStatus_t check(const MatmulProblem& problem);

/// Bytes from a matrix's first element to its last.
std::size_t extent(const MatrixLayout& layout);

/// Aborts unless all memory is the device's.
void check_memory(const MatmulProblem& problem, const MatmulPointers& pointers, int device);

/// Computes; all memory is open. Sums in double, in the order of k, and rounds once.
void multiply(const MatmulProblem& problem, const MatmulPointers& pointers);

/// The object of a handle, or nullptr.
std::shared_ptr<MatmulHandle> find_handle(cublasLtHandle_t handle);
std::shared_ptr<MatmulDesc> find_desc(cublasLtMatmulDesc_t handle);
std::shared_ptr<MatrixLayout> find_layout(cublasLtMatrixLayout_t handle);
std::shared_ptr<MatmulPreference> find_preference(cublasLtMatmulPreference_t handle);

}  // namespace simulated
