// cublasLt's handles and descriptors, and its words for errors.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "simulated_cuda/cublaslt.hpp"

namespace simulated {
namespace {

template <typename Handle, typename Object>
Handles<Handle, Object>& handles() {
  static auto& all = *new Handles<Handle, Object>;
  return all;
}
auto& libraries() { return handles<cublasLtHandle_t, MatmulHandle>(); }
auto& descs() { return handles<cublasLtMatmulDesc_t, MatmulDesc>(); }
auto& layouts() { return handles<cublasLtMatrixLayout_t, MatrixLayout>(); }
auto& preferences() { return handles<cublasLtMatmulPreference_t, MatmulPreference>(); }

using Field = std::span<std::byte>;  // empty: not simulated
template <typename T>
Field field_of(T& member) {
  return std::as_writable_bytes(std::span<T, 1>(&member, 1));
}

Field field(MatmulDesc& desc, int attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return field_of(desc.compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return field_of(desc.scale);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return field_of(desc.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return field_of(desc.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return field_of(desc.transpose_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return field_of(desc.transpose_c);
    case CUBLASLT_MATMUL_DESC_FILL_MODE:
      return field_of(desc.fill);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return field_of(desc.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return field_of(desc.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return field_of(desc.bias_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return field_of(desc.bias_type);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return field_of(desc.mask);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return field_of(desc.mask_ld);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return field_of(desc.mask_stride);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return field_of(desc.processors);
    default:
      return {};
  }
}

Field field(MatrixLayout& layout, int attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return field_of(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return field_of(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return field_of(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return field_of(layout.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return field_of(layout.ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return field_of(layout.batches);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return field_of(layout.stride);
    default:
      return {};
  }
}

Field field(MatmulPreference& preference, int attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return field_of(preference.search);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return field_of(preference.workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return field_of(preference.reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return field_of(preference.alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return field_of(preference.alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return field_of(preference.alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return field_of(preference.alignment[3]);
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT:
      return field_of(preference.waves);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
      return field_of(preference.implementations);
    default:
      return {};
  }
}

template <typename Object>
cublasStatus_t set(const std::shared_ptr<Object>& object, int attribute, const void* value, std::size_t bytes) {
  if (!object || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Field target = field(*object, attribute);
  if (target.empty()) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (target.size() != bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(target.data(), value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Object>
cublasStatus_t get(const std::shared_ptr<Object>& object, int attribute, void* value, std::size_t bytes,
                   std::size_t* written) {
  if (!object || (bytes == 0 ? written == nullptr : value == nullptr)) return CUBLAS_STATUS_INVALID_VALUE;
  const Field source = field(*object, attribute);
  if (source.empty()) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (bytes != 0 && bytes != source.size()) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != 0) std::memcpy(value, source.data(), bytes);
  if (written != nullptr) *written = source.size();
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Handle, typename Object>
cublasStatus_t create(Handles<Handle, Object>& all, Handle* handle, Object object) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = all.add(std::make_shared<Object>(std::move(object)));
  ++machine().library_objects;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Handle, typename Object>
cublasStatus_t destroy(Handles<Handle, Object>& all, Handle handle) {
  if (!all.remove(handle)) return CUBLAS_STATUS_INVALID_VALUE;
  --machine().library_objects;
  return CUBLAS_STATUS_SUCCESS;
}

struct Words {
  cublasStatus_t status;
  const char* name;
  const char* text;
};
// clang-format off
constexpr Words all_words[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value or parameter was passed to the function"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH", "the function requires an architectural feature absent from the device"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the function failed to launch on the GPU"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the requested functionality is not supported"},
};
// clang-format on

Words words(cublasStatus_t status) {
  const auto* found =
      std::find_if(std::begin(all_words), std::end(all_words), [&](const Words& w) { return w.status == status; });
  return found != std::end(all_words) ? *found : Words{status, "unrecognized status", "unrecognized status"};
}

}  // namespace

std::shared_ptr<MatmulHandle> find_handle(cublasLtHandle_t handle) { return libraries().find(handle); }
std::shared_ptr<MatmulDesc> find_desc(cublasLtMatmulDesc_t handle) { return descs().find(handle); }
std::shared_ptr<MatrixLayout> find_layout(cublasLtMatrixLayout_t handle) { return layouts().find(handle); }
std::shared_ptr<MatmulPreference> find_preference(cublasLtMatmulPreference_t h) { return preferences().find(h); }

}  // namespace simulated

using namespace simulated;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const Session session;
  if (machine().devices.empty()) return CUBLAS_STATUS_NOT_INITIALIZED;
  return create(libraries(), handle, MatmulHandle{current_device()});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const Session session;
  return destroy(libraries(), handle) == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusName(cublasStatus_t status) { return words(status).name; }
const char* cublasLtGetStatusString(cublasStatus_t status) { return words(status).text; }
const char* cublasGetStatusName(cublasStatus_t status) { return words(status).name; }
const char* cublasGetStatusString(cublasStatus_t status) { return words(status).text; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  const Session session;
  MatmulDesc made;
  made.compute = compute;
  made.scale = scale;
  return create(descs(), desc, made);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  const Session session;
  return destroy(descs(), desc);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  const Session session;
  return set(find_desc(desc), attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              void* value, std::size_t bytes, std::size_t* written) {
  const Session session;
  return get(find_desc(desc), attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t ld) {
  const Session session;
  MatrixLayout made;
  made.type = type;
  made.rows = rows;
  made.columns = columns;
  made.ld = ld;
  return create(layouts(), layout, made);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  const Session session;
  return destroy(layouts(), layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  const Session session;
  return set(find_layout(layout), attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void* value,
                                                std::size_t bytes, std::size_t* written) {
  const Session session;
  return get(find_layout(layout), attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  const Session session;
  return create(preferences(), preference, MatmulPreference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  const Session session;
  return destroy(preferences(), preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  const Session session;
  return set(find_preference(preference), attribute, value, bytes);
}

}  // extern "C"
