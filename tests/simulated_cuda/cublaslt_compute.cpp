// The product itself, and what it may be given.
#include <algorithm>
#include <vector>

#include "simulated_cuda/block.hpp"
#include "simulated_cuda/cublaslt.hpp"

namespace simulated {
namespace {

constexpr std::uint32_t known_epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT,       CUBLASLT_EPILOGUE_RELU,
                                             CUBLASLT_EPILOGUE_BIAS,          CUBLASLT_EPILOGUE_RELU_BIAS,
                                             CUBLASLT_EPILOGUE_RELU_AUX,      CUBLASLT_EPILOGUE_DRELU,
                                             CUBLASLT_EPILOGUE_DRELU_BGRAD,   CUBLASLT_EPILOGUE_BGRADA,
                                             CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_BGRADB};

bool types_known(const MatmulProblem& p) {
  if (p.desc.scale != CUDA_R_32F || p.a.type != p.b.type || p.c.type != p.d.type) return false;
  const bool floats = p.a.type == CUDA_R_32F && p.d.type == CUDA_R_32F;
  const bool halves = p.a.type == CUDA_R_16BF && (p.d.type == CUDA_R_32F || p.d.type == CUDA_R_16BF);
  switch (p.desc.compute) {
    case CUBLAS_COMPUTE_32F:
      return floats || halves;
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return floats || halves;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return floats;
    default:
      return false;
  }
}

bool whole_16_bytes(const MatrixLayout& layout) {
  return static_cast<std::size_t>(layout.ld) * size_of(number_of(layout.type)) % 16 == 0;
}

bool epilogue_promised(const MatmulProblem& p) {
  const bool known = std::count(std::begin(known_epilogues), std::end(known_epilogues), p.desc.epilogue) != 0;
  if (!known || !(p.writes_bias() || p.uses_mask())) return known;
  const bool tensor_cores = p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                            (p.desc.compute == CUBLAS_COMPUTE_32F && p.a.type == CUDA_R_16BF);
  return tensor_cores && whole_16_bytes(p.a) && whole_16_bytes(p.b) && whole_16_bytes(p.c) && whole_16_bytes(p.d);
}

bool addressable(const MatrixLayout& layout) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  return layout.ld <= most / static_cast<std::int64_t>(layout.columns);
}

bool valid(const MatrixLayout& layout) {
  return layout.rows > 0 && layout.columns > 0 && layout.rows < (1U << 31) && layout.columns < (1U << 31) &&
         layout.ld >= static_cast<std::int64_t>(layout.rows) && layout.batches > 0 && layout.stride >= 0;
}

bool same(const MatrixLayout& x, const MatrixLayout& y) {
  return x.rows == y.rows && x.columns == y.columns && x.ld == y.ld && x.stride == y.stride;
}

/// A column-major matrix of double, as the product sees it.
std::vector<double> unpacked(const MatrixLayout& layout, const void* from, std::int64_t batch, bool transpose,
                             bool tf32) {
  const auto rows = static_cast<std::int64_t>(layout.rows);
  const auto columns = static_cast<std::int64_t>(layout.columns);
  const Number number = number_of(layout.type);
  std::vector<double> result(layout.rows * layout.columns);
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      double value = load(number, from, batch * layout.stride + j * layout.ld + i);
      if (tf32) value = to_tf32(static_cast<float>(value));
      result[static_cast<std::size_t>(transpose ? i * columns + j : j * rows + i)] = value;
    }
  }
  return result;
}

/// One matrix of a batch.
class Product {
 public:
  Product(const MatmulProblem& problem, const MatmulPointers& pointers, std::int64_t batch)
      : p_(problem), at_(pointers), batch_(batch), m_(p_.m()), n_(p_.n()), k_(p_.k()) {
    const bool tf32 = p_.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    a_ = unpacked(p_.a, at_.a, batch, p_.desc.transpose_a != CUBLAS_OP_N, tf32);
    b_ = unpacked(p_.b, at_.b, batch, p_.desc.transpose_b != CUBLAS_OP_N, tf32);
  }

  void run(double alpha, double beta) {
    std::vector<double> column(static_cast<std::size_t>(m_));
    bias_gradient_.assign(static_cast<std::size_t>(p_.bias_size()), 0.0);
    for (std::int64_t j = 0; j < n_; ++j) {
      std::fill(column.begin(), column.end(), 0.0);
      for (std::int64_t l = 0; l < k_; ++l) {
        const double factor = b_[static_cast<std::size_t>(j * k_ + l)];
        const double* a = &a_[static_cast<std::size_t>(l * m_)];
        for (std::int64_t i = 0; i < m_; ++i) column[static_cast<std::size_t>(i)] += a[i] * factor;
      }
      finish(column, j, alpha, beta);
    }
    if (p_.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA) sum_over_k(a_, m_, 1, m_);
    if (p_.desc.epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_over_k(b_, n_, k_, 1);
    if (!p_.writes_bias()) return;
    for (std::int64_t i = 0; i < p_.bias_size(); ++i) {
      store(number_of(p_.d.type), p_.desc.bias, batch_ * p_.desc.bias_stride + i,
            bias_gradient_[static_cast<std::size_t>(i)]);
    }
  }

 private:
  void finish(const std::vector<double>& column, std::int64_t j, double alpha, double beta) {
    const Number number = number_of(p_.d.type);
    for (std::int64_t i = 0; i < m_; ++i) {
      double value = alpha * column[static_cast<std::size_t>(i)];
      if (beta != 0) value += beta * load(number, at_.c, batch_ * p_.c.stride + j * p_.c.ld + i);
      if (p_.has(CUBLASLT_EPILOGUE_BIAS)) value += load(number, p_.desc.bias, batch_ * p_.desc.bias_stride + i);
      if (p_.has(CUBLASLT_EPILOGUE_RELU)) {
        if (p_.uses_mask()) set_bit(i, j, value > 0);
        value = value < 0 ? 0 : value;  // not a number stays that
      }
      if (p_.has(8U) && !bit(i, j)) value = 0;
      if (p_.has(16U)) bias_gradient_[static_cast<std::size_t>(i)] += value;
      store(number, at_.d, batch_ * p_.d.stride + j * p_.d.ld + i, value);
    }
  }

  void sum_over_k(const std::vector<double>& matrix, std::int64_t size, std::int64_t stride, std::int64_t k_stride) {
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t l = 0; l < k_; ++l) {
        bias_gradient_[static_cast<std::size_t>(i)] += matrix[static_cast<std::size_t>(i * stride + l * k_stride)];
      }
    }
  }

  std::uint8_t& byte(std::int64_t i, std::int64_t j) {
    return static_cast<std::uint8_t*>(p_.desc.mask)[(batch_ * p_.desc.mask_stride + j * p_.desc.mask_ld + i) / 8];
  }
  bool bit(std::int64_t i, std::int64_t j) { return (byte(i, j) >> i % 8 & 1) != 0; }
  void set_bit(std::int64_t i, std::int64_t j, bool on) {
    byte(i, j) = static_cast<std::uint8_t>((byte(i, j) & ~(1U << i % 8)) | (on ? 1U << i % 8 : 0U));
  }

  const MatmulProblem& p_;
  const MatmulPointers& at_;
  std::int64_t batch_, m_, n_, k_;
  std::vector<double> a_, b_, bias_gradient_;
};

void need(const void* pointer, std::size_t bytes, int device, const char* what) {
  const Location location = machine().locate(pointer, bytes);
  if (location.home == Home::device && location.device == device) return;
  fatal("%s of cublasLtMatmul, %zu bytes at %p, are not memory of device %d", what, bytes, pointer, device);
}

bool overlap(const void* x, std::size_t x_bytes, const void* y, std::size_t y_bytes) {
  const auto* a = static_cast<const std::byte*>(x);
  const auto* b = static_cast<const std::byte*>(y);
  return a < b + y_bytes && b < a + x_bytes;
}

}  // namespace

Number number_of(std::uint32_t type) { return type == CUDA_R_16BF ? Number::bfloat16 : Number::float32; }

std::size_t extent(const MatrixLayout& layout) {
  const auto last = (layout.batches - 1) * layout.stride + (static_cast<std::int64_t>(layout.columns) - 1) * layout.ld +
                    static_cast<std::int64_t>(layout.rows);
  return static_cast<std::size_t>(last) * size_of(number_of(layout.type));
}

cublasStatus_t check(const MatmulProblem& p) {
  const MatmulDesc& desc = p.desc;
  for (const MatrixLayout* layout : {&p.a, &p.b, &p.c, &p.d}) {
    if (layout->order != CUBLASLT_ORDER_COL) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!valid(*layout) || layout->batches != p.d.batches) return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const int transpose : {desc.transpose_a, desc.transpose_b}) {
    if (transpose != CUBLAS_OP_N && transpose != CUBLAS_OP_T) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool a_as_is = desc.transpose_a == CUBLAS_OP_N;
  const bool b_as_is = desc.transpose_b == CUBLAS_OP_N;
  const bool fits = (a_as_is ? p.a.rows : p.a.columns) == p.d.rows && p.c.rows == p.d.rows &&
                    (b_as_is ? p.b.columns : p.b.rows) == p.d.columns && p.c.columns == p.d.columns &&
                    (b_as_is ? p.b.rows : p.b.columns) == static_cast<std::uint64_t>(p.k());
  const bool apart = p.d.batches == 1 || p.d.stride >= p.d.ld * static_cast<std::int64_t>(p.d.columns);
  if (!fits || !apart) return CUBLAS_STATUS_INVALID_VALUE;
  const bool modes =
      desc.transpose_c == CUBLAS_OP_N && desc.fill == CUBLAS_FILL_MODE_FULL && desc.processors >= 0 &&
      (desc.pointer_mode == CUBLASLT_POINTER_MODE_HOST || desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE);
  if (!modes || !epilogue_promised(p) || !types_known(p)) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const MatrixLayout* layout : {&p.a, &p.b, &p.c, &p.d}) {
    if (!addressable(*layout)) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool bias_type = desc.bias_type == -1 || static_cast<std::uint32_t>(desc.bias_type) == p.d.type;
  if (p.uses_bias() && !bias_type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (p.uses_bias() && (desc.bias_stride < 0 || (desc.bias_stride != 0 && desc.bias_stride < p.bias_size()))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (p.writes_bias() && p.d.batches > 1 && desc.bias_stride == 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (p.uses_mask() && (desc.mask_ld % 128 != 0 || desc.mask_ld < p.m() || desc.mask_stride % 128 != 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

void check_memory(const MatmulProblem& p, const MatmulPointers& at, int device) {
  need(at.a, extent(p.a), device, "matrix A");
  need(at.b, extent(p.b), device, "matrix B");
  need(at.c, extent(p.c), device, "matrix C");
  need(at.d, extent(p.d), device, "matrix D");
  const bool in_place = at.c == at.d;
  if (overlap(at.d, extent(p.d), at.a, extent(p.a)) || overlap(at.d, extent(p.d), at.b, extent(p.b)) ||
      (in_place ? !same(p.c, p.d) : overlap(at.d, extent(p.d), at.c, extent(p.c)))) {
    fatal("matrix D of cublasLtMatmul overlaps an input, and is not C with the same layout");
  }
  const auto others = p.d.batches - 1;
  if (p.uses_bias()) {
    const auto count = static_cast<std::size_t>(others * p.desc.bias_stride + p.bias_size());
    need(p.desc.bias, count * size_of(number_of(p.d.type)), device, "the bias");
  }
  if (p.uses_mask()) {
    const auto bits = others * p.desc.mask_stride + (p.n() - 1) * p.desc.mask_ld + p.m();
    need(p.desc.mask, static_cast<std::size_t>(bits + 7) / 8, device, "the mask");
  }
  if (p.desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
    need(at.alpha, sizeof(float), device, "alpha");
    need(at.beta, sizeof(float), device, "beta");
  }
  if (at.workspace_bytes != 0) need(at.workspace, at.workspace_bytes, device, "the workspace");
}

void multiply(const MatmulProblem& p, const MatmulPointers& at) {
  const bool on_device = p.desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  const float alpha = on_device ? *static_cast<const float*>(at.alpha) : at.alpha_value;
  const float beta = on_device ? *static_cast<const float*>(at.beta) : at.beta_value;
  if (at.workspace_bytes != 0) std::memset(at.workspace, 0xFF, at.workspace_bytes);  // it is the library's to write
  for (std::int64_t batch = 0; batch < p.d.batches; ++batch) Product(p, at, batch).run(alpha, beta);
}

}  // namespace simulated
