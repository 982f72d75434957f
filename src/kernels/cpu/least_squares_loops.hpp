#pragma once

#include <cstddef>
#include <cstdint>

// The inner loops of alternating least squares; loops.hpp says what all loops have in common.

namespace unisono::kernels::cpu {

using Count = std::ptrdiff_t;

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

}  // namespace unisono::kernels::cpu
