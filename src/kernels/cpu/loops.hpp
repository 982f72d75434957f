#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/layer_loops.hpp"
#include "cpu/vector_loops.hpp"

// The inner loops that the instruction set decides about. Each is compiled once per set (loops_isa/*.cpp), and a
// backend holds the table of the best set that its CPU has. Pointers and counts alone: no inline function of another
// header may be instantiated there (see cmake/UnisonoInstructionSets.cmake). All run on the calling thread.
//
// Width: lanes of a block, a multiple of 16. Pointers to activations are aligned to 64 bytes.

namespace unisono::cpu {

using Count = std::ptrdiff_t;

/// C (m × n) = [C +] Σ_r A_r (m × k) B_r (k × n), all column-major; B_r is given as its transpose (n × k) where
/// `transposed`.
struct ProductShape {
  Count m = 0, n = 0, k = 0;
  Count lda = 0, ldb = 0, ldc = 0;
  bool transposed = false;
  bool accumulate = false;
  bool operator==(const ProductShape&) const = default;
};

struct Loops {
  const char* name = "";  ///< "AVX-512"

  // products.cpp
  // ------------
  /// For CPUs that no product is generated for at run time. \param a, b [count] matrices
  void (*product)(const ProductShape& shape, const float* const* a, const float* const* b, float* c, Count count);
  /// y[c][lane] += bias[c] (where there is one), and then where `relu` y = max(y, 0); for `channels` rows.
  void (*finish)(Count channels, Count width, const float* bias, bool relu, float* y);
  /// dy ← dy ⊙ (y > 0) where y is not null; and db[c] += Σ_lanes dy where db is not null; for `channels` rows.
  void (*mask_and_sum)(Count channels, Count width, const float* y, float* dy, float* db);

  // transpose.cpp
  // -------------
  /// out[j · out_stride + i] = in[i · in_stride + j] for i < rows, j < columns.
  void (*transpose)(Count rows, Count columns, const float* in, Count in_stride, float* out, Count out_stride);

  // peak.cpp
  // --------
  /// Fused multiply-adds in registers; returns how many flops these were. \param sink keeps them from being optimised
  /// away
  double (*multiply_add)(Count iterations, float* sink);
  /// a = b + 0.5 c
  void (*triad)(Count count, float* a, const float* b, const float* c);

  // Files of these names
  // --------------------
  PoolLoops pool;
  BatchNormLoops batch_norm;
  LayerNormLoops layer_norm;
  ActivationLoops activation;
  DropoutLoops dropout;
  LossLoops loss;
  AlgebraLoops algebra;
  UpdateLoops updates;
};

namespace portable {
Loops make_loops();
}
#ifdef UNISONO_X86
namespace avx2 {
Loops make_loops();
}
namespace avx512 {
Loops make_loops();
}
#endif

}  // namespace unisono::cpu
