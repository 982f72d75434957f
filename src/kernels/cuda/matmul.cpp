#include "cuda/matmul.hpp"

#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr std::uint32_t kAlignmentOfViews = 32;  // blocks of θ begin at multiples of 16 values, in bf16 of 2 bytes

template <typename Handle, auto Destroy>
class Owned {
 public:
  ~Owned() {
    if (handle_ != nullptr) (cublas_lt().*Destroy)(handle_);
  }
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle* address() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Layout = Owned<cublasLtMatrixLayout_t, &CublasLt::cublasLtMatrixLayoutDestroy>;
using Description = Owned<cublasLtMatmulDesc_t, &CublasLt::cublasLtMatmulDescDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &CublasLt::cublasLtMatmulPreferenceDestroy>;

void make_layout(Layout& layout, cudaDataType_t type, Index rows, Index columns) {
  check(cublas_lt().cublasLtMatrixLayoutCreate(layout.address(), type, static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
}

template <typename T>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublas_lt().cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

template <typename T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublas_lt().cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::bias_relu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::bias_gradient:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

struct Products::Plan {
  Description description;
  Layout a, b, d;
  std::vector<cublasLtMatmulAlgo_t> offers;
  std::size_t chosen = 0;
};

Products::Products(Precision precision, int most_offers) : precision_(precision), most_offers_(most_offers) {
  check(cublas_lt().cublasLtCreate(&handle_), "cublasLtCreate");
}

Products::~Products() {
  plans_.clear();
  cublas_lt().cublasLtDestroy(handle_);
}

Products::Plan& Products::plan(const ProductSpec& spec) {
  std::unique_ptr<Plan>& plan = plans_[spec];
  if (!plan) plan = make_plan(spec);
  return *plan;
}

std::unique_ptr<Products::Plan> Products::make_plan(const ProductSpec& spec) const {
  auto plan = std::make_unique<Plan>();
  const cudaDataType_t in = stores_halves(precision_) ? CUDA_R_16BF : CUDA_R_32F;
  const cudaDataType_t out = spec.floats ? CUDA_R_32F : in;
  const cublasComputeType_t compute = precision_ == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublas_lt().cublasLtMatmulDescCreate(plan->description.address(), compute, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  set(plan->description, CUBLASLT_MATMUL_DESC_TRANSA, spec.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan->description, CUBLASLT_MATMUL_DESC_TRANSB, spec.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan->description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(spec.epilogue));
  make_layout(plan->a, in, spec.transpose_a ? spec.k : spec.m, spec.transpose_a ? spec.m : spec.k);
  make_layout(plan->b, in, spec.transpose_b ? spec.n : spec.k, spec.transpose_b ? spec.k : spec.n);
  make_layout(plan->d, out, spec.m, spec.n);

  Preference preference;
  check(cublas_lt().cublasLtMatmulPreferenceCreate(preference.address()), "cublasLtMatmulPreferenceCreate");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
  if (out != CUDA_R_32F) {  // partial sums must not be rounded before they are added up
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  }
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference, attribute, kAlignmentOfViews);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most_offers_));
  int count = 0;
  const cublasStatus_t status = cublas_lt().cublasLtMatmulAlgoGetHeuristic(
      handle_, plan->description.get(), plan->a.get(), plan->b.get(), plan->d.get(), plan->d.get(), preference.get(),
      most_offers_, results.data(), &count);
  // With an epilogue, any error means that cuBLASLt has none; the caller can do without it.
  if (status != CUBLAS_STATUS_NOT_SUPPORTED && spec.epilogue == Epilogue::none) {
    check(status, "cublasLtMatmulAlgoGetHeuristic");
  }
  if (status != CUBLAS_STATUS_SUCCESS) return plan;
  results.resize(static_cast<std::size_t>(count));
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    if (result.state == CUBLAS_STATUS_SUCCESS) plan->offers.push_back(result.algo);
  }
  return plan;
}

bool Products::can(const ProductSpec& spec) { return !plan(spec).offers.empty(); }

int Products::offers(const ProductSpec& spec) { return static_cast<int>(plan(spec).offers.size()); }

void Products::choose(const ProductSpec& spec, int offer) { plan(spec).chosen = static_cast<std::size_t>(offer); }

void Products::multiply(Queue& queue, const ProductSpec& spec, const ProductMemory& memory) {
  Plan& plan = this->plan(spec);
  if (plan.offers.empty()) throw DeviceError("cuBLASLt has no kernel for this product");
  ++multiplied_;
  Signature signature;
  signature.add(&plan)
      .add(plan.chosen)
      .add(memory.a)
      .add(memory.b)
      .add(memory.d)
      .add(memory.bias)
      .add(memory.workspace);
  const cublasLtMatmulAlgo_t& algorithm = plan.offers[plan.chosen];
  queue.add(signature, [this, &plan, &algorithm, memory, beta = spec.adds ? 1.0F : 0.0F](cudaStream_t stream) {
    constexpr float kOne = 1;
    if (memory.bias != nullptr) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
    check(cublas_lt().cublasLtMatmul(handle_, plan.description.get(), &kOne, memory.a, plan.a.get(), memory.b,
                                     plan.b.get(), &beta, memory.d, plan.d.get(), memory.d, plan.d.get(), &algorithm,
                                     memory.workspace, kWorkspaceBytes, stream),
          "cublasLtMatmul");
  });
}

}  // namespace unisono::kernels::cuda
