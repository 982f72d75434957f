// Products for CPUs that none is generated for, and what is done to the tiles of a product before or after it.
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::cpu::UNISONO_ISA {
namespace {

constexpr Count kTileVectors = 2, kTileColumns = 6;  // 12 sums, 2 of A and 1 of B: 15 of 16 registers

/// A tile of C: `vectors` registers high, `columns` wide; of the last register only `height` values where `partial`.
template <Count vectors, Count columns, bool partial>
void tile(const ProductShape& shape, Count row, Count column, Count height, const float* const* a,
          const float* const* b, float* c, Count count) {
  const auto read = [height](const float* from) { return partial ? load_first(from, height) : load(from); };
  const Count k_step = shape.transposed ? shape.ldb : 1, n_step = shape.transposed ? 1 : shape.ldb;
  float* corner = c + column * shape.ldc + row;
  Vector sums[columns][vectors] = {};
  for (Count r = 0; r < count; ++r) {
    const float* left = a[r] + row;
    const float* right = b[r] + column * n_step;
    for (Count k = 0; k < shape.k; ++k, left += shape.lda, right += k_step) {
      Vector values[vectors];
      for (Count v = 0; v < vectors; ++v) values[v] = read(left + v * kLanes);
      for (Count n = 0; n < columns; ++n) {
        for (Count v = 0; v < vectors; ++v) sums[n][v] += values[v] * broadcast(right[n * n_step]);
      }
    }
  }
  for (Count n = 0; n < columns; ++n) {
    for (Count v = 0; v < vectors; ++v) {
      float* to = corner + n * shape.ldc + v * kLanes;
      const Vector sum = shape.accumulate ? sums[n][v] + read(to) : sums[n][v];
      partial ? store_first(to, sum, height) : store(to, sum);
    }
  }
}

/// All columns of the rows from `row` on.
template <Count vectors, bool partial>
void rows(const ProductShape& shape, Count row, Count height, const float* const* a, const float* const* b, float* c,
          Count count) {
  Count n = 0;
  for (; n + kTileColumns <= shape.n; n += kTileColumns) {
    tile<vectors, kTileColumns, partial>(shape, row, n, height, a, b, c, count);
  }
  for (; n < shape.n; ++n) tile<vectors, 1, partial>(shape, row, n, height, a, b, c, count);
}

void product(const ProductShape& shape, const float* const* a, const float* const* b, float* c, Count count) {
  Count row = 0;
  for (; row + kTileVectors * kLanes <= shape.m; row += kTileVectors * kLanes) {
    rows<kTileVectors, false>(shape, row, kLanes, a, b, c, count);
  }
  for (; row + kLanes <= shape.m; row += kLanes) rows<1, false>(shape, row, kLanes, a, b, c, count);
  if (row < shape.m) rows<1, true>(shape, row, shape.m - row, a, b, c, count);
}

void finish(Count channels, Count width, const float* bias, bool relu, float* y) {
  for (Count channel = 0; channel < channels; ++channel, y += width) {
    const Vector shift = broadcast(bias == nullptr ? 0.0F : bias[channel]);
    for (Count lane = 0; lane < width; lane += kLanes) {
      const Vector value = load(y + lane) + shift;
      store(y + lane, relu ? (value < 0.0F ? Vector{} : value) : value);  // a NaN stays one
    }
  }
}

void mask_and_sum(Count channels, Count width, const float* y, float* dy, float* db) {
  for (Count channel = 0; channel < channels; ++channel, dy += width) {
    Vector sums{};
    for (Count lane = 0; lane < width; lane += kLanes) {
      Vector value = load(dy + lane);
      if (y != nullptr) {
        value = load(y + channel * width + lane) > 0.0F ? value : Vector{};
        store(dy + lane, value);
      }
      sums += value;
    }
    if (db == nullptr) continue;
    float sum = 0;
    for (Count lane = 0; lane < kLanes; ++lane) sum += sums[lane];
    db[channel] += sum;
  }
}

}  // namespace

void add_products(Loops& loops) {
  loops.product = product;
  loops.finish = finish;
  loops.mask_and_sum = mask_and_sum;
}

}  // namespace unisono::cpu::UNISONO_ISA
