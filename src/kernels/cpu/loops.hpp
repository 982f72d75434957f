#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/in_place_loops.hpp"
#include "cpu/layer_loops.hpp"
#include "cpu/linear_loops.hpp"
#include "cpu/vector_loops.hpp"

// The inner loops whose code depends on the instruction set. Each is compiled once per set (loops_isa/*.cpp), and a
// backend uses the table of the best set that its CPU has. They take only pointers and counts: no inline function of
// another header may be instantiated in these files (see cmake/UnisonoInstructionSets.cmake). All run on the calling
// thread.
//
// Width: lanes of a block, a multiple of 16; or 8, where the vectors of a set are not longer (narrow_loops_for).
// Pointers to activations are aligned to 64 bytes.

namespace unisono::kernels::cpu {

using Count = std::ptrdiff_t;

/// The inner loops of encoders. Bit i of a bitmap is bit i mod 64 of its word i div 64; bits behind the last value are
/// 0.
struct EncoderLoops {
  /// halves[i] = v[i] rounded to bfloat16; v[i] −= that
  void (*encode_bf16)(float* v, Count n, std::uint16_t* halves);
  /// sum[i] += halves[i]
  void (*add_bf16)(const std::uint16_t* halves, Count n, float* sum);

  /// max |v|
  float (*largest)(const float* v, Count n);
  /// codes[i] = ⌊v[i] · inverse + u_i⌋, at most ±127; v[i] −= codes[i] · scale. u_i is the (i mod 8)-th half word of
  /// philox(key, {counter + i div 8, position, …}), over 2¹⁶. \param n at most 256
  void (*encode_eight_bit)(const struct EightBitBlock& block, float* v, Count n, std::int8_t* codes);
  /// sum[i] += codes[i] · scale
  void (*add_eight_bit)(float scale, const std::int8_t* codes, Count n, float* sum);

  /// The signs, and means[0] of the values that are not negative, means[1] of the others; v[i] −= its sign's mean.
  void (*encode_one_bit)(float* v, Count n, std::uint64_t* negative, float* means);
  /// sum[i] += the mean of value i's sign
  void (*add_one_bit)(const float* means, const std::uint64_t* negative, Count n, float* sum);

  /// Marks the values with |v| ≥ magnitude. \return how many these are
  Count (*mark)(float magnitude, const float* v, Count n, std::uint64_t* present);
  /// Likewise, and marks the negative ones of them; v[i] −= ±τ there.
  Count (*mark_signed)(float tau, float* v, Count n, std::uint64_t* present, std::uint64_t* negative);
  /// sum[i] += ±τ where `present`
  void (*add_signed)(float tau, const std::uint64_t* present, const std::uint64_t* negative, Count n, float* sum);
};

/// A block of at most 256 values, and the counter of its random numbers.
struct EightBitBlock {
  float scale = 0, inverse = 0;
  std::uint64_t key = 0;
  std::uint32_t counter[4] = {};  ///< the first word is advanced by one for each eight values
};

/// Rows of a table: row i begins at values + i · stride, and `width` of its floats are in use, a multiple of 16.
struct FactorTable {
  const float* values = nullptr;
  Count stride = 0, width = 0;
  Count rank = 0;  ///< K ≤ width; the others are zero
};

/// One row's problem; see LeastSquaresTerms.
struct NormalEquations {
  const std::uint32_t* rows = nullptr;  ///< [count]
  const float* targets = nullptr;       ///< [count]
  const float* weights = nullptr;       ///< [count] or null
  Count count = 0;
  const float* gram = nullptr;  ///< null: 0
  float l2 = 0;
  bool bias = false;
};

/// The inner loops of alternating least squares.
struct LeastSquaresLoops {
  /// \param scratch [least_squares_scratch(width)], aligned \param factors [width], aligned \param bias may be null
  void (*solve)(const FactorTable& table, const NormalEquations& equations, float* scratch, float* factors,
                float* bias);
  /// gram (columns of width + 16) += Σ q qᵀ over rows [first, last)
  void (*add_gram)(const FactorTable& table, Count first, Count last, float* gram);
  /// products[i] = p · row rows[i]
  void (*products)(const FactorTable& table, const std::uint32_t* rows, Count count, const float* p, float* products);
};

/// Rows that are gathered at a time: as many as lie in 24 KiB, but at least 16.
static constexpr Count least_squares_block(Count width) {
  const Count most = 6144 / width / 16 * 16;
  return most < 16 ? 16 : (most > 128 ? 128 : most);
}
/// Matrix, gathered rows and their multiples, right-hand sides [block][2], and four vectors.
static constexpr Count least_squares_scratch(Count width) {
  const Count stride = width + 16, block = least_squares_block(width);
  return width * stride + 2 * block * stride + 2 * block + 5 * stride;
}

/// C (m × n) = f([C +] Σ_r A_r (m × k) B_r (k × n) + bias), all column-major: C[i + j · ldc], and so on. B_r is given
/// as its transpose (n × k) where `transposed`. The bias, where there is one, has one value for each column, or for
/// each row where `bias_of_rows`; f is max(·, 0) where `relu`. Where `streams`, C is written past the caches: m is a
/// multiple of the vectors' length, the columns begin at cache lines, and the caller makes a fence at the end.
struct ProductShape {
  Count m = 0, n = 0, k = 0;
  Count lda = 0, ldb = 0, ldc = 0;
  bool transposed = false;
  bool accumulate = false;
  bool relu = false;
  bool bias_of_rows = false;
  bool streams = false;
};

/// How far apart the elements of a matrix lie, in floats: from one row to the next, and from one column to the next.
struct Strides {
  Count row, column;
};

/// C (m × n) = f([C +] A (m × k) B (k × n) + bias), C column-major; bias and f as above, one bias for each column.
struct MatrixShape {
  Count m = 0, n = 0, k = 0;
  Strides a{}, b{};
  Count ldc = 0;
  bool accumulate = false;
  bool relu = false;
};

/// What to prefetch for later products: each step of a product prefetches the cache lines at `a` and `b`, and advances
/// these by `a_step` and `b_step` floats. A step is Loops::multiply_adds_per_step multiply-adds.
struct Ahead {
  const float* a = nullptr;
  Count a_step = 0;
  const float* b = nullptr;
  Count b_step = 0;
};

/// C (m × n) += Σ_r A_r B_rᵀ over the lanes: C[i · ldc + j] += Σ_r Σ_lane A_r[i · width + lane] B_r[j · width + lane].
struct DotShape {
  Count m = 0, n = 0;
  Count width = 0;
  Count ldc = 0;
};

struct Loops {
  const char* name = "";  ///< "AVX-512"

  // products.cpp
  // ------------
  /// 2·m·n·k·count flops. \param a, b [count] matrices \param bias [n] or [m], or null \param ahead may be null
  void (*product)(const ProductShape& shape, const float* const* a, const float* const* b, Count count,
                  const float* bias, float* c, Ahead* ahead);
  double multiply_adds_per_step;
  /// A product of large matrices, which are not cut into parts that fit into caches. Null where `product` on such parts
  /// is faster. No element depends on how many other rows and columns there are. \param bias [n], or null
  void (*matrix_product)(const MatrixShape& shape, const float* a, const float* b, const float* bias,
                         float* c) = nullptr;

  // dots.cpp
  // --------
  /// 2·m·n·width·count flops. For small m and n; for larger ones, transposing A and calling `product` is faster.
  void (*dots)(const DotShape& shape, const float* const* a, const float* const* b, Count count, float* c);

  // transpose.cpp
  // -------------
  /// out[j · out_stride + i] = in[i · in_stride + j] for i < rows, j < columns.
  void (*transpose)(Count rows, Count columns, const float* in, Count in_stride, float* out, Count out_stride);

  // mask.cpp
  // --------
  /// For `channels` rows of `width` lanes: dy ← dy ⊙ (y > 0) where y is not null; then, where `sums` [channels][16] is
  /// not null, lane l of dy is added to sums[channel][l mod 16].
  void (*mask_and_sum)(Count channels, Count width, const float* y, float* dy, float* sums);
  /// The same with the channels innermost: of rows [rows][channels], sums[channel] += Σ dy.
  void (*mask_and_sum_rows)(Count rows, Count channels, const float* y, float* dy, float* sums);

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
  BatchNormLoops batch_norm;           ///< of tiles of lanes
  BatchNormLoops channels_batch_norm;  ///< of tiles with the channels innermost
  WinogradLoops winograd2, winograd4;
  LayerNormLoops layer_norm;
  ActivationLoops activation;
  DropoutLoops dropout;
  LossLoops loss;
  AlgebraLoops algebra;
  UpdateLoops updates;
  EncoderLoops encoders;
  InPlaceLoops in_place;
  LeastSquaresLoops least_squares;
  LinearLoops linear;
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

}  // namespace unisono::kernels::cpu
