// Matrix products by BLIS, on the calling thread.
#include <blis.h>

#include <string>

#include "cpu/blis.hpp"

namespace unisono::kernels::cpu {
namespace {

/// One thread, and no special method for small or narrow matrices: such a method's sums are in another order, so that
/// an element would depend on how many columns are computed at once, and thereby on the number of our threads.
rntm_t settings_of_a_call() {
  rntm_t settings;
  bli_rntm_init(&settings);
  bli_rntm_set_num_threads(1, &settings);
  bli_rntm_disable_l3_sup(&settings);
  return settings;
}

/// A column of C ← f(column + bias). A NaN stays NaN.
void finish(const MatrixShape& shape, float bias, float* column) {
  for (Count i = 0; i < shape.m; ++i) {
    const float value = column[i] + bias;
    column[i] = shape.relu && value < 0.0F ? 0.0F : value;
  }
}

void matrix_product(const MatrixShape& shape, const float* a, const float* b, const float* bias, float* c) {
  float one = 1, beta = shape.accumulate ? 1.0F : 0.0F;  // where it is 0, C is not read
  rntm_t settings = settings_of_a_call();
  bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, shape.m, shape.n, shape.k, &one, const_cast<float*>(a),
               shape.a.row, shape.a.column, const_cast<float*>(b), shape.b.row, shape.b.column, &beta, c, 1, shape.ldc,
               nullptr, &settings);
  if (bias == nullptr && !shape.relu) return;
  for (Count j = 0; j < shape.n; ++j) finish(shape, bias == nullptr ? 0.0F : bias[j], c + j * shape.ldc);
}

}  // namespace

bool has_blis() { return true; }

Loops with_blis(Loops loops) {
  bli_init();  // else BLIS_ARCH_TYPE in the environment, which chooses kernels, ends the program in the next line
  // BLIS's kernels depend on the CPU, and so do bits.
  static const std::string name = std::string("portable, BLIS for ") + bli_arch_string(bli_arch_query_id());
  loops.name = name.c_str();
  loops.matrix_product = matrix_product;
  return loops;
}

}  // namespace unisono::kernels::cpu
