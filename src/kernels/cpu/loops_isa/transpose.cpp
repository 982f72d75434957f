// Transposing matrices of floats in registers: a tile of kLanes × kLanes values by log₂ kLanes stages of exchanges.
// In the stage of distance s, rows i and i + s exchange their off-diagonal blocks of s columns (Eklundh, IEEE Trans.
// Computers 1972).
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

template <int distance>
inline void stages(Vector (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & distance) == 0) exchange<distance>(rows[i], rows[i + distance]);
  }
  if constexpr (distance > 1) stages<distance / 2>(rows);
}

inline void transpose_tile(const float* in, Count in_stride, float* out, Count out_stride) {
  Vector rows[kLanes];
#pragma GCC unroll 16
  for (Count i = 0; i < kLanes; ++i) rows[i] = load(in + i * in_stride);
  stages<kLanes / 2>(rows);
#pragma GCC unroll 16
  for (Count i = 0; i < kLanes; ++i) store(out + i * out_stride, rows[i]);
}

/// A tile at the lower or right border. \pre height, width ≤ kLanes
void transpose_border(Count height, Count width, const float* in, Count in_stride, float* out, Count out_stride) {
  Vector rows[kLanes] = {};
  for (Count i = 0; i < height; ++i) rows[i] = load_first(in + i * in_stride, width);
  stages<kLanes / 2>(rows);
  for (Count j = 0; j < width; ++j) store_first(out + j * out_stride, rows[j], height);
}

void transpose(Count rows, Count columns, const float* in, Count in_stride, float* out, Count out_stride) {
  for (Count i = 0; i < rows; i += kLanes) {
    const Count height = rows - i < kLanes ? rows - i : kLanes;
    for (Count j = 0; j < columns; j += kLanes) {
      const Count width = columns - j < kLanes ? columns - j : kLanes;
      const float* from = in + i * in_stride + j;
      float* to = out + j * out_stride + i;
      if (height == kLanes && width == kLanes) {
        transpose_tile(from, in_stride, to, out_stride);
      } else {
        transpose_border(height, width, from, in_stride, to, out_stride);
      }
    }
  }
}

}  // namespace

void add_transpose(Loops& loops) { loops.transpose = transpose; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
