// Layers of language models for a few rows, row by row in memory. A sum has one register, whatever other sums are made
// at the same time, so that a row's results do not depend on the others.
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"
#include "cpu/loops_isa/vector_math.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

#if defined(__AVX512F__)  // 32 registers
constexpr Count kRows = 4;
#else  // 16 registers
constexpr Count kRows = 2;
#endif
constexpr Count kUnits = 4;  ///< of a tile; their sums are added up across the lanes together

/// The first lanes of a value; the others are zero.
__attribute__((always_inline)) inline Vector used(Vector value, AllLanes) { return value; }
__attribute__((always_inline)) inline Vector used(Vector value, FirstLanes lanes) {
  Integers mask{};
  for (Count i = 0; i < lanes.count; ++i) mask[i] = -1;
  return keep(mask, value);
}

struct Operands {
  const RowProduct& shape;
  const float *x, *w, *bias;
  float* y;
};

/// y = f(sums + bias) of one row and kUnits units, of which only some may exist.
inline void finish(const Operands& product, Count row, Count unit, const Vector* sums) {
  Vector totals[1];
  add_lanes<kUnits>(sums, totals);
  const Count units = product.shape.units - unit < kUnits ? product.shape.units - unit : kUnits;
  for (Count j = 0; j < units; ++j) {
    const float sum = totals[0][j] + (product.bias == nullptr ? 0.0F : product.bias[unit + j]);
    product.y[row * product.shape.ldy + unit + j] = product.shape.relu && sum < 0.0F ? 0.0F : sum;
  }
}

/// sums[i][j] = the lanes' sums of x_i · w_{unit + j}. Units that do not exist are computed as if they were the last.
template <Count rows, Count units>
inline void dots(const Operands& product, Count row, Count unit, Vector (*sums)[kUnits]) {
  const Count in = product.shape.in, last = product.shape.units - 1;
  Vector made[rows][units] = {};
  const float *x[rows], *w[units];
  for (Count i = 0; i < rows; ++i) x[i] = product.x + (row + i) * in;
  for (Count j = 0; j < units; ++j) w[j] = product.w + (unit + j < last ? unit + j : last) * in;
  for_each_vector(
      in, [&](Count k, auto lanes) __attribute__((always_inline)) {
        Vector values[rows];
#pragma GCC unroll 4
        for (Count i = 0; i < rows; ++i) values[i] = lanes.get(x[i] + k);
#pragma GCC unroll 4
        for (Count j = 0; j < units; ++j) {
          const Vector weights = lanes.get(w[j] + k);
#pragma GCC unroll 4
          for (Count i = 0; i < rows; ++i) made[i][j] = multiply_add(values[i], weights, made[i][j]);
        }
      });
  for (Count i = 0; i < rows; ++i) {
    for (Count j = 0; j < units; ++j) sums[i][j] = made[i][j];
  }
}

/// A tile of y. For a single row the weights are one stream from memory, which CPUs read faster than several.
template <Count rows>
inline void tile(const Operands& product, Count row, Count unit) {
  Vector sums[rows][kUnits];
  if constexpr (rows == 1) {
    for (Count j = 0; j < kUnits; ++j) {
      Vector sum[1][kUnits];
      dots<1, 1>(product, row, unit + j, sum);
      sums[0][j] = sum[0][0];
    }
  } else {
    dots<rows, kUnits>(product, row, unit, sums);
  }
  for (Count i = 0; i < rows; ++i) finish(product, row + i, unit, sums[i]);
}

/// All rows from `row` on, with the same units.
template <Count most>
inline void column_of_tiles(const Operands& product, Count row, Count unit) {
  const Count left = product.shape.rows - row;
  if constexpr (most > 1) {
    if (left < most) return column_of_tiles<most - 1>(product, row, unit);
  }
  tile<most>(product, row, unit);
  if (left > most) column_of_tiles<most>(product, row + most, unit);
}

void product(const RowProduct& shape, Count first, Count last, const float* x, const float* w, const float* bias,
             float* y) {
  const Operands operands{shape, x, w, bias, y};
  for (Count unit = first; unit < last; unit += kUnits) column_of_tiles<kRows>(operands, 0, unit);
}

/// scores become 2^(factor · (score − the largest)). \return their sum
inline float exponentials(Count n, float factor, float* scores) {
  float largest = scores[0];
  for (Count i = 1; i < n; ++i) largest = scores[i] > largest ? scores[i] : largest;
  Vector sum{};
  for_each_vector(
      n, [&](Count i, auto lanes) __attribute__((always_inline)) {
        const Vector power = power_of_two(lanes.get(scores + i) - broadcast(largest), factor);
        lanes.put(scores + i, power);
        sum += used(power, lanes);
      });
  return static_cast<float>(total(sum));
}

/// y = Σ_i p[i] v_i / sum, for rows v_i of `width` values.
inline void weighted_sum(Count n, Count width, const float* p, float sum, const float* v, float* y) {
  constexpr Count kTogether = 4;
  const Vector inverse = broadcast(1.0F / sum);
  Count d = 0;
  for (; d + kTogether * kLanes <= width; d += kTogether * kLanes) {
    Vector sums[kTogether] = {};
    for (Count i = 0; i < n; ++i) {
#pragma GCC unroll 4
      for (Count j = 0; j < kTogether; ++j) sums[j] += broadcast(p[i]) * load(v + i * width + d + j * kLanes);
    }
    for (Count j = 0; j < kTogether; ++j) store(y + d + j * kLanes, sums[j] * inverse);
  }
  for_each_vector(
      width - d, [&](Count e, auto lanes) __attribute__((always_inline)) {
        Vector all{};
        for (Count i = 0; i < n; ++i) all += broadcast(p[i]) * lanes.get(v + i * width + d + e);
        lanes.put(y + d + e, all * inverse);
      });
}

void attend(const QueryShape& shape, const float* q, const float* k, const float* v, float* scores, float* y) {
  const RowProduct dots{
      .rows = shape.queries, .units = shape.keys, .in = shape.width, .ldy = shape.score_stride, .relu = false};
  product(dots, 0, shape.keys, q, k, nullptr, scores);
  for (Count i = 0; i < shape.queries; ++i) {
    float* const own = scores + i * shape.score_stride;
    const float sum = exponentials(shape.keys, shape.factor, own);
    weighted_sum(shape.keys, shape.width, own, sum, v, y + i * shape.width);
  }
}

/// The mean of f(x[i]); f takes a Vector.
template <typename Of>
inline float mean_of(Count n, const float* x, const Of& f) {
  Vector sum{};
  for_each_vector(
      n, [&](Count i, auto lanes) __attribute__((always_inline)) { sum += used(f(lanes.get(x + i)), lanes); });
  return static_cast<float>(total(sum) / static_cast<double>(n));
}

void layer_norm(Count n, float epsilon, const float* x, const float* gamma, const float* beta, float* y) {
  const Vector mean = broadcast(mean_of(n, x, [](Vector v) { return v; }));
  const float variance = mean_of(n, x, [&](Vector v) { return (v - mean) * (v - mean); });
  const Vector inverse = broadcast(1.0F / __builtin_sqrtf(variance + epsilon));
  for_each_vector(
      n, [&](Count i, auto lanes) __attribute__((always_inline)) {
        lanes.put(y + i, (lanes.get(x + i) - mean) * inverse * lanes.get(gamma + i) + lanes.get(beta + i));
      });
}

void rms_norm(Count n, float epsilon, const float* x, const float* gamma, float* y) {
  const float square = mean_of(n, x, [](Vector v) { return v * v; });
  const Vector inverse = broadcast(1.0F / __builtin_sqrtf(square + epsilon));
  for_each_vector(
      n, [&](Count i, auto lanes)
             __attribute__((always_inline)) { lanes.put(y + i, lanes.get(x + i) * inverse * lanes.get(gamma + i)); });
}

}  // namespace

void add_decode(Loops& loops) { loops.decode = {product, attend, layer_norm, rms_norm}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
