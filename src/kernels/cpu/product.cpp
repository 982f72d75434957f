#include "cpu/product.hpp"

#include <libxsmm.h>

#include <mutex>

namespace unisono::cpu {
namespace {

libxsmm_smmfunction_reducebatch_addr generate(const ProductShape& shape) {
  const auto narrow = [](Count value) { return static_cast<libxsmm_blasint>(value); };
  const libxsmm_blasint lda = narrow(shape.lda), ldb = narrow(shape.ldb), ldc = narrow(shape.ldc);
  const float alpha = 1, beta = shape.accumulate ? 1.0F : 0.0F;
  const int flags = shape.transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  return libxsmm_smmdispatch_reducebatch_addr(narrow(shape.m), narrow(shape.n), narrow(shape.k), &lda, &ldb, &ldc,
                                              &alpha, &beta, &flags, &prefetch);
}

}  // namespace

void prepare_generated_products() {
  static std::once_flag once;  // LIBXSMM's registry is the process's own
  std::call_once(once, libxsmm_init);
}

Product::Product(const ProductShape& shape, const Loops& loops, bool generated) : shape_(shape), loop_(loops.product) {
  // LIBXSMM declares its arguments without the const that they have.
  if (generated) generated_ = reinterpret_cast<Generated>(generate(shape));
}

}  // namespace unisono::cpu
