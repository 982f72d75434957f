// cublasLtMatmulAlgoGetHeuristic and cublasLtMatmul.
#include <algorithm>
#include <cstring>

#include "simulated_cuda/cublaslt.hpp"

namespace simulated {
namespace {

constexpr std::uint64_t mark_of_algorithms = 0x756E69736F6E6F31;
constexpr std::uint64_t large_workspace = std::uint64_t{1} << 20;
constexpr std::uint32_t most_alignment = 16;

/// What an algorithm's opaque words hold: it is for one problem, pointers of one alignment, and so much workspace.
struct Algorithm {
  std::uint64_t mark;
  std::uint64_t problem;
  std::uint64_t workspace;
  std::uint32_t alignment[4];  // A, B, C, D
  std::uint32_t bias_alignment;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

std::uint64_t fingerprint(const MatmulProblem& p) {
  std::uint64_t hash = 14695981039346656037U;
  const auto add = [&](auto value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211U; };
  for (const int word : {p.desc.compute, p.desc.transpose_a, p.desc.transpose_b, p.desc.pointer_mode}) add(word);
  add(p.desc.epilogue);
  for (const MatrixLayout* layout : {&p.a, &p.b, &p.c, &p.d}) {
    add(layout->type);
    add(layout->rows);
    add(layout->columns);
    add(layout->ld);
    add(layout->batches);
    add(layout->stride);
  }
  return hash;
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return address == 0 ? most_alignment : std::min<std::uint32_t>(most_alignment, address & -address);
}

bool gather(MatmulProblem& problem, cublasLtMatmulDesc_t desc, const cublasLtMatrixLayout_t (&layouts)[4]) {
  const auto found = find_desc(desc);
  if (!found) return false;
  problem.desc = *found;
  MatrixLayout* const targets[] = {&problem.a, &problem.b, &problem.c, &problem.d};
  for (int i = 0; i < 4; ++i) {
    const auto layout = find_layout(layouts[i]);
    if (!layout) return false;
    *targets[i] = *layout;
  }
  return true;
}

/// One algorithm that takes a workspace, where one is allowed, and one that needs none.
cublasStatus_t find_algorithms(const MatmulProblem& problem, const MatmulPreference& preference, int wanted,
                               cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = 0;
  if (const auto status = check(problem); status != CUBLAS_STATUS_SUCCESS) return status;
  if (preference.search != CUBLASLT_SEARCH_BEST_FIT || preference.waves != 0 ||
      preference.implementations != ~std::uint64_t{0}) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const MatrixLayout* const layouts[] = {&problem.a, &problem.b, &problem.c, &problem.d};
  Algorithm algorithm{};
  algorithm.mark = mark_of_algorithms;
  algorithm.problem = fingerprint(problem);
  algorithm.bias_alignment = problem.uses_bias() ? alignment_of(problem.desc.bias) : 1;
  for (int i = 0; i < 4; ++i) {
    if (preference.alignment[i] < size_of(number_of(layouts[i]->type))) return CUBLAS_STATUS_NOT_SUPPORTED;
    algorithm.alignment[i] = std::min(preference.alignment[i], most_alignment);
  }
  for (const std::uint64_t workspace : {large_workspace, std::uint64_t{0}}) {
    if (workspace > preference.workspace || *count == wanted) continue;
    algorithm.workspace = workspace;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// Whether the algorithm was found for this problem and for pointers like these.
bool suits(const Algorithm& algorithm, const MatmulProblem& problem, const MatmulPointers& at) {
  if (algorithm.mark != mark_of_algorithms || algorithm.problem != fingerprint(problem)) return false;
  const void* const pointers[] = {at.a, at.b, at.c, at.d};
  for (int i = 0; i < 4; ++i) {
    if (alignment_of(pointers[i]) < algorithm.alignment[i]) return false;
  }
  return !problem.uses_bias() || alignment_of(problem.desc.bias) >= algorithm.bias_alignment;
}

cublasStatus_t submit_matmul(Session& session, const MatmulProblem& problem, const MatmulPointers& at,
                             cudaStream_t handle) {
  const auto stream = find_stream(handle);
  if (!stream || stream->device != current_device()) return CUBLAS_STATUS_INVALID_VALUE;
  const int device = stream->device;
  check_memory(problem, at, device);
  auto run = [=] {
    check_memory(problem, at, device);
    multiply(problem, at);
    ++machine().counts.matmuls;
  };
  const auto error = submit(session, stream, std::make_shared<DeviceWork>(1U << device, std::move(run)));
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace simulated

using namespace simulated;

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference_handle, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  const Session session;
  if (!find_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  MatmulProblem problem;
  const auto preference = find_preference(preference_handle);
  if (!gather(problem, desc, {a, b, c, d}) || !preference || wanted <= 0 || results == nullptr || count == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool has_epilogue = problem.desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  if (has_epilogue && machine().fails(Call::epilogue)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return find_algorithms(problem, *preference, wanted, results, count);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  Session session;
  const auto library = find_handle(handle);
  if (!library) return CUBLAS_STATUS_NOT_INITIALIZED;
  MatmulProblem problem;
  if (library->device != current_device() || !gather(problem, desc, {a_layout, b_layout, c_layout, d_layout}) ||
      alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (const auto status = check(problem); status != CUBLAS_STATUS_SUCCESS) return status;
  if ((problem.uses_bias() && problem.desc.bias == nullptr) || (problem.uses_mask() && problem.desc.mask == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  MatmulPointers at{alpha, beta, 0, 0, a, b, c, d, workspace, 0};
  if (problem.desc.pointer_mode == CUBLASLT_POINTER_MODE_HOST) {
    if (machine().inside_device(alpha) || machine().inside_device(beta)) return CUBLAS_STATUS_INVALID_VALUE;
    at.alpha_value = *static_cast<const float*>(alpha);
    at.beta_value = *static_cast<const float*>(beta);
  }
  if (chosen != nullptr) {
    Algorithm algorithm{};
    std::memcpy(&algorithm, chosen, sizeof algorithm);
    if (!suits(algorithm, problem, at) || workspace_bytes < algorithm.workspace) return CUBLAS_STATUS_INVALID_VALUE;
    if (algorithm.workspace != 0 && alignment_of(workspace) < 16) return CUBLAS_STATUS_INVALID_VALUE;
    at.workspace_bytes = algorithm.workspace;
  }
  if (machine().fails(Call::matmul)) return CUBLAS_STATUS_EXECUTION_FAILED;
  return submit_matmul(session, problem, at, stream);
}

}  // extern "C"
