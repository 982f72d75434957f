// Products against naive loops.
#include <cublasLt.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <optional>

#include "simulated_cuda/numbers.hpp"
#include "simulated_cuda/test_support.hpp"

namespace simulated {
namespace {

/// Small multiples of 1/8, whose products and sums are exact in float; all of them are bf16 and tf32.
float example(std::size_t i, std::size_t salt) {
  return static_cast<float>(static_cast<int>((i * 37 + salt * 11) % 17) - 8) / 8;
}

std::vector<float> matrix_examples(std::size_t size, std::size_t salt) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = example(i, salt);
  return values;
}

/// Numbers on the device in one of two formats.
class Numbers {
 public:
  Numbers(cudaDataType type, const std::vector<float>& values)
      : type_(type), bytes_(values.size() * size_of(number())) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      store(number(), bytes_.data(), static_cast<std::int64_t>(i), values[i]);
    }
    array_.emplace(bytes_);
  }
  std::vector<float> read() const {
    const auto bytes = array_->read();
    std::vector<float> values(bytes.size() / size_of(number()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(load(number(), bytes.data(), static_cast<std::int64_t>(i)));
    }
    return values;
  }
  void* data() const { return array_->data(); }

 private:
  Number number() const { return type_ == CUDA_R_16BF ? Number::bfloat16 : Number::float32; }
  cudaDataType type_;
  std::vector<std::byte> bytes_;
  std::optional<DeviceArray<std::byte>> array_;
};

/// One product: D [m, n] = α op(A) op(B) + β C, column by column.
struct Problem {
  int m = 5, n = 4, k = 3;
  bool transpose_a = false, transpose_b = false;
  cudaDataType in = CUDA_R_32F, out = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float alpha = 1, beta = 0;
  int batches = 1;
  int padding = 0;  // of each leading dimension

  int rows_a() const { return transpose_a ? k : m; }
  int columns_a() const { return transpose_a ? m : k; }
  int rows_b() const { return transpose_b ? n : k; }
  int columns_b() const { return transpose_b ? k : n; }
};

class Matmul {
 public:
  explicit Matmul(const Problem& p) : p_(p) {
    REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasLtMatmulDescCreate(&desc, p.compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
    layout(0, p.in, p.rows_a(), p.columns_a());
    layout(1, p.in, p.rows_b(), p.columns_b());
    layout(2, p.out, p.m, p.n);
    layout(3, p.out, p.m, p.n);
    REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS);
  }
  ~Matmul() {
    cublasLtMatmulPreferenceDestroy(preference);
    for (const auto l : layouts) cublasLtMatrixLayoutDestroy(l);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
  }
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    REQUIRE(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }
  template <typename T>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    REQUIRE(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }
  int ld(int rows) const { return rows + p_.padding; }
  std::size_t size(int rows, int columns) const {
    return static_cast<std::size_t>(ld(rows)) * static_cast<std::size_t>(columns * p_.batches);
  }
  cublasStatus_t heuristic(cublasLtMatmulHeuristicResult_t (&results)[4], int& count) const {
    return cublasLtMatmulAlgoGetHeuristic(handle, desc, layouts[0], layouts[1], layouts[2], layouts[3], preference, 4,
                                          results, &count);
  }
  cublasStatus_t run(const void* a, const void* b, const void* c, void* d, const cublasLtMatmulAlgo_t* algo = nullptr,
                     void* workspace = nullptr, std::size_t bytes = 0) const {
    return cublasLtMatmul(handle, desc, &p_.alpha, a, layouts[0], b, layouts[1], &p_.beta, c, layouts[2], d, layouts[3],
                          algo, workspace, bytes, nullptr);
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t layouts[4] = {};
  cublasLtMatmulPreference_t preference = nullptr;

 private:
  void layout(int i, cudaDataType type, int rows, int columns) {
    const auto r = static_cast<std::uint64_t>(rows);
    const auto c = static_cast<std::uint64_t>(columns);
    REQUIRE(cublasLtMatrixLayoutCreate(&layouts[i], type, r, c, ld(rows)) == CUBLAS_STATUS_SUCCESS);
    const std::int32_t batches = p_.batches;
    const std::int64_t stride = static_cast<std::int64_t>(ld(rows)) * columns;
    REQUIRE(cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                             sizeof batches) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                             sizeof stride) == CUBLAS_STATUS_SUCCESS);
  }
  Problem p_;
};

/// What element (i, j) of matrix `batch` is before the epilogue.
double naive_product(const Problem& p, const std::vector<float>& a, const std::vector<float>& b,
                     const std::vector<float>& c, int batch, int i, int j) {
  const auto at = [&](const std::vector<float>& matrix, int rows, int columns, int row, int column) {
    const int ld = rows + p.padding;
    return static_cast<double>(matrix[static_cast<std::size_t>((batch * columns + column) * ld + row)]);
  };
  double sum = 0;
  for (int l = 0; l < p.k; ++l) {
    sum += (p.transpose_a ? at(a, p.k, p.m, l, i) : at(a, p.m, p.k, i, l)) *
           (p.transpose_b ? at(b, p.n, p.k, j, l) : at(b, p.k, p.n, l, j));
  }
  return p.alpha * sum + (p.beta != 0 ? p.beta * at(c, p.m, p.n, i, j) : 0);
}

void check_product(const Problem& p) {
  const Matmul matmul(p);
  const auto a = matrix_examples(matmul.size(p.rows_a(), p.columns_a()), 1);
  const auto b = matrix_examples(matmul.size(p.rows_b(), p.columns_b()), 2);
  const auto c = matrix_examples(matmul.size(p.m, p.n), 3);
  const auto untouched = std::vector<float>(c.size(), 99);
  const Numbers on_a(p.in, a), on_b(p.in, b), on_c(p.out, c), on_d(p.out, untouched);
  REQUIRE(matmul.run(on_a.data(), on_b.data(), on_c.data(), on_d.data()) == CUBLAS_STATUS_SUCCESS);
  const auto d = on_d.read();
  const int ld = p.m + p.padding;
  for (int batch = 0; batch < p.batches; ++batch) {
    for (int j = 0; j < p.n; ++j) {
      for (int i = 0; i < ld; ++i) {
        CAPTURE(batch, i, j);
        const double expected = i < p.m ? naive_product(p, a, b, c, batch, i, j) : 99;
        const auto got = d[static_cast<std::size_t>((batch * p.n + j) * ld + i)];
        REQUIRE(got == as_stored(p.out == CUDA_R_32F ? Number::float32 : Number::bfloat16, expected));
      }
    }
  }
}

TEST_CASE("products with all transposes, formats, paddings and batches", "[simulated][cublaslt]") {
  Problem p;
  p.transpose_a = GENERATE(false, true);
  p.transpose_b = GENERATE(false, true);
  p.batches = GENERATE(1, 3);
  p.padding = GENERATE(0, 2);
  check_product(p);
  p.in = CUDA_R_16BF;
  check_product(p);
  p.out = CUDA_R_16BF;
  p.alpha = 0.5F;
  p.beta = 2;
  check_product(p);
}

TEST_CASE("tf32 rounds what is multiplied, float does not", "[simulated][cublaslt]") {
  Problem p;
  p.m = p.n = p.k = 1;
  const float a = 1 + 1.0F / 4096;  // tf32 keeps 10 bits of the fraction
  const float b = 1 + 3.0F / 2048;  // halfway: to the even neighbour
  for (const auto compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
    p.compute = compute;
    const Matmul matmul(p);
    const Numbers on_a(CUDA_R_32F, {a}), on_b(CUDA_R_32F, {b}), d(CUDA_R_32F, {0});
    REQUIRE(matmul.run(on_a.data(), on_b.data(), d.data(), d.data()) == CUBLAS_STATUS_SUCCESS);
    CHECK(d.read()[0] == (compute == CUBLAS_COMPUTE_32F ? a * b : 1 + 2.0F / 1024));
  }
}

/// What tensor cores take: leading dimensions of whole 16 bytes.
Problem on_tensor_cores() {
  Problem p;
  p.m = 8;
  p.n = 12;
  p.k = 4;
  p.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  return p;
}

TEST_CASE("epilogues add the bias, clip, and sum gradients", "[simulated][cublaslt]") {
  Problem p = on_tensor_cores();
  p.transpose_a = GENERATE(false, true);
  p.transpose_b = GENERATE(false, true);
  p.epilogue = GENERATE(CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS,
                        CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB);
  Matmul matmul(p);
  const auto a = matrix_examples(matmul.size(p.rows_a(), p.columns_a()), 1);
  const auto b = matrix_examples(matmul.size(p.rows_b(), p.columns_b()), 2);
  const Numbers on_a(p.in, a), on_b(p.in, b), on_d(p.out, std::vector<float>(matmul.size(p.m, p.n), NAN));
  const auto bias = matrix_examples(12, 4);
  const Numbers on_bias(p.out, bias);
  matmul.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, on_bias.data());
  REQUIRE(matmul.run(on_a.data(), on_b.data(), on_d.data(), on_d.data()) == CUBLAS_STATUS_SUCCESS);
  const auto d = on_d.read();
  for (int j = 0; j < p.n; ++j) {
    for (int i = 0; i < p.m; ++i) {
      double expected = naive_product(p, a, b, {}, 0, i, j);
      if ((p.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) expected += bias[static_cast<std::size_t>(i)];
      if ((p.epilogue & CUBLASLT_EPILOGUE_RELU) != 0) expected = std::max(expected, 0.0);
      REQUIRE(d[static_cast<std::size_t>(j * p.m + i)] == expected);
    }
  }
  auto gradient = bias;
  if (p.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
    for (int i = 0; i < p.m; ++i) {
      gradient[static_cast<std::size_t>(i)] = 0;
      for (int l = 0; l < p.k; ++l) {
        gradient[static_cast<std::size_t>(i)] += a[static_cast<std::size_t>(p.transpose_a ? i * p.k + l : l * p.m + i)];
      }
    }
  }
  if (p.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    for (int j = 0; j < p.n; ++j) {
      gradient[static_cast<std::size_t>(j)] = 0;
      for (int l = 0; l < p.k; ++l) {
        gradient[static_cast<std::size_t>(j)] += b[static_cast<std::size_t>(p.transpose_b ? l * p.n + j : j * p.k + l)];
      }
    }
  }
  CHECK(on_bias.read() == gradient);
}

TEST_CASE("the mask of a ReLU is read by its gradient", "[simulated][cublaslt]") {
  Problem p = on_tensor_cores();
  p.epilogue = CUBLASLT_EPILOGUE_RELU_AUX;
  const auto m = static_cast<std::size_t>(p.m), n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  const auto a = matrix_examples(m * k, 1);
  const auto b = matrix_examples(n * k, 2);
  const Numbers on_a(p.in, a), on_b(p.in, b), on_d(p.out, std::vector<float>(m * n)),
      on_g(p.out, std::vector<float>(m * n));
  const Numbers on_bias(p.out, std::vector<float>(m));
  const DeviceArray<std::byte> mask(128 / 8 * n);
  {
    Matmul forward(p);
    forward.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask.data());
    forward.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{8});
    CHECK(forward.run(on_a.data(), on_b.data(), on_d.data(), on_d.data()) == CUBLAS_STATUS_INVALID_VALUE);
    forward.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{128});
    REQUIRE(forward.run(on_a.data(), on_b.data(), on_d.data(), on_d.data()) == CUBLAS_STATUS_SUCCESS);
  }
  p.epilogue = CUBLASLT_EPILOGUE_DRELU_BGRAD;
  p.alpha = -1;
  Matmul backward(p);
  backward.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask.data());
  backward.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{128});
  backward.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, on_bias.data());
  REQUIRE(backward.run(on_a.data(), on_b.data(), on_g.data(), on_g.data()) == CUBLAS_STATUS_SUCCESS);
  const auto y = on_d.read();
  const auto g = on_g.read();
  std::vector<float> sums(m);
  for (std::size_t i = 0; i < m * n; ++i) {
    REQUIRE(g[i] == -y[i]);  // where y is 0 the gradient is, and elsewhere the same product was negated
    sums[i % m] += g[i];
  }
  CHECK(on_bias.read() == sums);
}

TEST_CASE("alpha and beta may lie on the device", "[simulated][cublaslt]") {
  Problem p;
  p.m = p.n = p.k = 1;
  Matmul matmul(p);
  matmul.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, std::int32_t{CUBLASLT_POINTER_MODE_DEVICE});
  const Numbers a(p.in, {3}), b(p.in, {5}), c(p.out, {7}), d(p.out, {0}), scales(CUDA_R_32F, {2, 10});
  auto* scale = static_cast<float*>(scales.data());
  const auto run = [&](const float* alpha, const float* beta) {
    return cublasLtMatmul(matmul.handle, matmul.desc, alpha, a.data(), matmul.layouts[0], b.data(), matmul.layouts[1],
                          beta, c.data(), matmul.layouts[2], d.data(), matmul.layouts[3], nullptr, nullptr, 0, nullptr);
  };
  REQUIRE(run(scale, scale + 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.read()[0] == 2 * 15 + 10 * 7);
  matmul.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, std::int32_t{CUBLASLT_POINTER_MODE_HOST});
  CHECK(run(scale, scale + 1) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("algorithms hold for what they were asked for", "[simulated][cublaslt]") {
  Problem p;
  Matmul matmul(p);
  const Numbers a(p.in, matrix_examples(16, 1)), b(p.in, matrix_examples(13, 2)), d(p.out, std::vector<float>(20));
  const DeviceArray<std::byte> workspace(1 << 20);
  cublasLtMatmulHeuristicResult_t results[4];
  int count = -1;
  REQUIRE(matmul.heuristic(results, count) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(count == 1);
  CHECK(results[0].workspaceSize == 0);
  CHECK(matmul.run(a.data(), b.data(), d.data(), d.data(), &results[0].algo) == CUBLAS_STATUS_SUCCESS);
  const auto* unaligned = static_cast<const float*>(a.data()) + 1;
  CHECK(matmul.run(unaligned, b.data(), d.data(), d.data(), &results[0].algo) == CUBLAS_STATUS_INVALID_VALUE);

  matmul.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{1} << 20);
  matmul.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{4});
  REQUIRE(matmul.heuristic(results, count) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(count == 2);
  CHECK(results[0].workspaceSize == 1 << 20);
  const auto* algo = &results[0].algo;
  CHECK(matmul.run(unaligned, b.data(), d.data(), d.data(), algo, workspace.data(), 1 << 20) == CUBLAS_STATUS_SUCCESS);
  CHECK(matmul.run(a.data(), b.data(), d.data(), d.data(), algo) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(matmul.run(a.data(), b.data(), d.data(), d.data(), algo, workspace.data(), 1 << 19) ==
        CUBLAS_STATUS_INVALID_VALUE);
  p.transpose_a = true;
  const Matmul other(p);
  CHECK(other.run(a.data(), b.data(), d.data(), d.data(), &results[1].algo) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("what cublasLt does not offer or cannot be is refused", "[simulated][cublaslt]") {
  cublasLtMatmulHeuristicResult_t results[4];
  int count = -1;
  Problem p;
  SECTION("formats that are not on its list") {
    p.in = CUDA_R_32F;
    p.out = CUDA_R_16BF;
    CHECK(Matmul(p).heuristic(results, count) == CUBLAS_STATUS_NOT_SUPPORTED);
    p.in = CUDA_R_16BF;
    p.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    CHECK(Matmul(p).heuristic(results, count) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
  SECTION("epilogues that are not simulated") {
    p.epilogue = CUBLASLT_EPILOGUE_GELU;
    CHECK(Matmul(p).heuristic(results, count) == CUBLAS_STATUS_NOT_SUPPORTED);
    CHECK(count == 0);
  }
  SECTION("epilogues of gradients without tensor cores, or whose leading dimensions are not of whole 16 bytes") {
    p = on_tensor_cores();
    p.epilogue = GENERATE(CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB);
    CHECK(Matmul(p).heuristic(results, count) == CUBLAS_STATUS_SUCCESS);
    p.compute = CUBLAS_COMPUTE_32F;
    CHECK(Matmul(p).heuristic(results, count) == CUBLAS_STATUS_NOT_SUPPORTED);
    p.in = CUDA_R_16BF;  // of 4 elements, as b has, 8 bytes
    CHECK(Matmul(p).heuristic(results, count) == CUBLAS_STATUS_NOT_SUPPORTED);
    p.k = 8;
    CHECK(Matmul(p).heuristic(results, count) == CUBLAS_STATUS_SUCCESS);
    p.m = 10;
    CHECK(Matmul(p).heuristic(results, count) == CUBLAS_STATUS_NOT_SUPPORTED);
    p.epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
    CHECK(Matmul(p).heuristic(results, count) == CUBLAS_STATUS_SUCCESS);
  }
  SECTION("leading dimensions that are too small, or spread a matrix too far") {
    const Matmul matmul(p);
    const auto with_ld = [&](std::int64_t ld) {
      REQUIRE(cublasLtMatrixLayoutSetAttribute(matmul.layouts[0], CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld) ==
              CUBLAS_STATUS_SUCCESS);
      return matmul.heuristic(results, count);
    };
    CHECK(with_ld(p.m - 1) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(with_ld(p.m) == CUBLAS_STATUS_SUCCESS);
    CHECK(with_ld(std::int64_t{1} << 30) == CUBLAS_STATUS_NOT_SUPPORTED);  // of three columns
  }
  SECTION("extents that do not fit") {
    const Matmul matmul(p);
    const std::uint64_t rows = 4;
    REQUIRE(cublasLtMatrixLayoutSetAttribute(matmul.layouts[1], CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows) ==
            CUBLAS_STATUS_SUCCESS);
    CHECK(matmul.heuristic(results, count) == CUBLAS_STATUS_INVALID_VALUE);
  }
  SECTION("attributes of another size") {
    const Matmul matmul(p);
    const std::uint64_t wide = CUBLASLT_EPILOGUE_RELU;
    CHECK(cublasLtMatmulDescSetAttribute(matmul.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &wide, sizeof wide) ==
          CUBLAS_STATUS_INVALID_VALUE);
    std::uint32_t value = 0;
    std::size_t written = 0;
    CHECK(cublasLtMatmulDescGetAttribute(matmul.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &value, sizeof value, &written) ==
          CUBLAS_STATUS_SUCCESS);
    CHECK(value == CUBLASLT_EPILOGUE_DEFAULT);
    CHECK(written == 4);
  }
  SECTION("a bias that is missing") {
    p.epilogue = CUBLASLT_EPILOGUE_BIAS;
    const Matmul matmul(p);
    const Numbers a(p.in, matrix_examples(15, 1)), b(p.in, matrix_examples(12, 2)), d(p.out, std::vector<float>(20));
    CHECK(matmul.heuristic(results, count) == CUBLAS_STATUS_SUCCESS);
    CHECK(matmul.run(a.data(), b.data(), d.data(), d.data()) == CUBLAS_STATUS_INVALID_VALUE);
  }
  SECTION("memory that is too short, the host's, or an input") {
    const Matmul matmul(p);
    const Numbers a(p.in, matrix_examples(14, 1)), b(p.in, matrix_examples(12, 2)), d(p.out, std::vector<float>(20));
    const auto whole = matrix_examples(20, 1);
    CHECK_THAT(death([&] { matmul.run(a.data(), b.data(), d.data(), d.data()); }), Contains("matrix A"));
    CHECK_THAT(death([&] { matmul.run(whole.data(), b.data(), d.data(), d.data()); }), Contains("matrix A"));
    CHECK_THAT(death([&] { matmul.run(d.data(), b.data(), d.data(), d.data()); }), Contains("overlaps an input"));
  }
}

TEST_CASE("products are captured and replayed", "[simulated][cublaslt]") {
  Problem p;
  p.m = p.n = p.k = 1;
  p.beta = 1;
  const Matmul matmul(p);
  const Numbers a(p.in, {3}), b(p.in, {5}), d(p.out, {0});
  const TestStream stream;
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const float one = 1;
  REQUIRE(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(cublasLtMatmul(matmul.handle, matmul.desc, &one, a.data(), matmul.layouts[0], b.data(), matmul.layouts[1],
                         &one, d.data(), matmul.layouts[2], d.data(), matmul.layouts[3], nullptr, nullptr, 0,
                         stream.handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaStreamEndCapture(stream.handle, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(executable, stream.handle) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(d.read()[0] == 45);
  REQUIRE(cudaGraphExecDestroy(executable) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("handles and descriptors that are live are counted", "[simulated][cublaslt]") {
  CHECK(statistics().live_library_objects == 0);
  {
    const Matmul matmul(Problem{});
    CHECK(statistics().live_library_objects == 7);  // a handle, a product, four layouts and a preference
    CHECK(cublasLtMatmulDescDestroy(nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  }
  CHECK(statistics().live_library_objects == 0);
}

TEST_CASE("bf16 is rounded once, to nearest and even", "[simulated][numbers]") {
  CHECK(to_bfloat16(1 + 1.0 / 256) == 1.0F);                      // halfway, down to even
  CHECK(to_bfloat16(1 + 3.0 / 256) == 1 + 4.0F / 256);            // halfway, up to even
  CHECK(to_bfloat16(1 + 1.0 / 256 + 0x1p-40) == 1 + 2.0F / 256);  // a little above half, lost in float
  CHECK(to_bfloat16(1 + 3.0 / 256 - 0x1p-40) == 1 + 2.0F / 256);  // a little below
  CHECK(to_bfloat16(-(1 + 1.0 / 256 + 0x1p-40)) == -(1 + 2.0F / 256));
  CHECK(std::isinf(to_bfloat16(3.4e38)));
  CHECK(std::isnan(to_bfloat16(NAN)));
}

}  // namespace
}  // namespace simulated
