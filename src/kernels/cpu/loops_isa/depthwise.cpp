#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

// Convolutions of each channel by itself. A pixel is a line of 16 floats: lanes of one channel, or 16 channels, each
// with weights of its own. So the kernel's taps and the pixels of a row are sums of vectors, without borders: a plane
// is copied with its padding first.

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kLine = kDepthwiseLanes;

__attribute__((always_inline)) inline void copy_line(const float* from, Count lanes, float* to) {
  if (lanes == kLine) {
    for (Count lane = 0; lane < kLine; lane += kLanes) store(to + lane, load(from + lane));
  } else {
    for (Count lane = 0; lane < lanes; ++lane) to[lane] = from[lane];
  }
}

void zero(float* to, Count lines) {
  for (Count i = 0; i < lines * kLine; i += kLanes) store(to + i, Vector{});
}

/// The first place at or behind `edge` of those `top`, top + spread, …: its number.
constexpr Count first_behind(Count edge, Count top, Count spread) {
  return edge <= top ? 0 : (edge - top + spread - 1) / spread;
}

void pad(const PaddedPlane& plane, Count first, Count last, const float* from, float* to) {
  const Count begin = first_behind(0, plane.left, plane.spread_width);
  Count end = first_behind(plane.width, plane.left, plane.spread_width);
  if (end > plane.columns) end = plane.columns;
  for (Count row = first; row < last; ++row, to += plane.width * kLine) {
    const Count number = first_behind(row, plane.top, plane.spread_height);
    const bool is_row = number < plane.rows && plane.top + number * plane.spread_height == row;
    if (!is_row || begin >= end || plane.spread_width > 1 || plane.lanes < kLine) zero(to, plane.width);
    if (!is_row || begin >= end) continue;
    const Count left = plane.left + begin * plane.spread_width;
    if (plane.spread_width == 1 && plane.lanes == kLine) {
      zero(to, left);
      zero(to + (left + end - begin) * kLine, plane.width - (left + end - begin));
    }
    for (Count column = begin; column < end; ++column) {
      copy_line(from + number * plane.row + column * plane.column, plane.lanes,
                to + (plane.left + column * plane.spread_width) * kLine);
    }
  }
}

/// Neighbouring pixels of a row of the output. kStride > 0: the stride, known to the compiler.
template <int kPixels, int kStride>
void correlate_pixels(const DepthwiseShape& s, const float* x, const float* w, const float* bias, float* y) {
  const Count stride = kStride > 0 ? kStride : s.stride_width;
  for (Count lane = 0; lane < kLine; lane += kLanes) {
    const Vector start = bias == nullptr ? Vector{} : load(bias + lane);
    Vector sum[kPixels];
    for (Vector& one : sum) one = start;
    for (Count ky = 0; ky < s.kernel_height; ++ky) {
      for (Count kx = 0; kx < s.kernel_width; ++kx) {
        const Vector weight = load(w + (ky * s.kernel_width + kx) * kLine + lane);
        const float* const from = x + (ky * s.dilation_height * s.width + kx * s.dilation_width) * kLine + lane;
        for (Count i = 0; i < kPixels; ++i) sum[i] = multiply_add(weight, load(from + i * stride * kLine), sum[i]);
      }
    }
    const Count used = s.lanes - lane;
    for (Count i = 0; i < kPixels; ++i) {
      const Vector value = s.relu ? (sum[i] > 0.0F ? sum[i] : Vector{}) : sum[i];
      float* const to = y + i * s.column + lane;
      if (used >= kLanes) {
        store(to, value);
      } else if (used > 0) {
        store_first(to, value, used);
      }
    }
  }
}

constexpr Count kMostPixels = 8;

template <int kStride>
void correlate_rows(const DepthwiseShape& s, Count rows, const float* x, const float* w, const float* bias, float* y) {
  constexpr decltype(&correlate_pixels<1, kStride>) kOf[kMostPixels] = {
      correlate_pixels<1, kStride>, correlate_pixels<2, kStride>, correlate_pixels<3, kStride>,
      correlate_pixels<4, kStride>, correlate_pixels<5, kStride>, correlate_pixels<6, kStride>,
      correlate_pixels<7, kStride>, correlate_pixels<8, kStride>};
  for (Count row = 0; row < rows; ++row) {
    for (Count column = 0; column < s.columns; column += kMostPixels) {
      const Count pixels = s.columns - column < kMostPixels ? s.columns - column : kMostPixels;
      kOf[pixels - 1](s, x + (row * s.stride_height * s.width + column * s.stride_width) * kLine, w, bias,
                      y + row * s.row + column * s.column);
    }
  }
}

void correlate(const DepthwiseShape& s, Count rows, const float* x, const float* w, const float* bias, float* y) {
  (s.stride_width == 1 ? correlate_rows<1> : correlate_rows<0>)(s, rows, x, w, bias, y);
}

/// Some neighbouring taps of some rows of the kernel, over all pixels of the output. kStep > 0: the dilation, known to
/// the compiler. \param x, dw at the first of the taps
template <int kRows, int kTaps, int kStep>
void add_taps(const DepthwiseShape& s, Count rows, const float* x, const float* dy, float* dw) {
  const Count step = (kStep > 0 ? kStep : s.dilation_width) * kLine, down = s.dilation_height * s.width * kLine;
  for (Count lane = 0; lane < kLine; lane += kLanes) {
    Vector sum[kRows][kTaps] = {};
    for (Count row = 0; row < rows; ++row) {
      const float* from = x + row * s.stride_height * s.width * kLine + lane;
      const float* of = dy + row * s.columns * kLine + lane;
      for (Count column = 0; column < s.columns; ++column, from += s.stride_width * kLine, of += kLine) {
        const Vector d = load(of);
        for (Count r = 0; r < kRows; ++r) {
          for (Count t = 0; t < kTaps; ++t) sum[r][t] = multiply_add(load(from + r * down + t * step), d, sum[r][t]);
        }
      }
    }
    for (Count r = 0; r < kRows; ++r) {
      for (Count t = 0; t < kTaps; ++t) {
        float* const to = dw + (r * s.kernel_width + t) * kLine + lane;
        store(to, load(to) + sum[r][t]);
      }
    }
  }
}

/// As many rows of the kernel at a time as have sums in registers.
template <int kTaps, int kStep>
void add_columns(const DepthwiseShape& s, Count rows, const float* x, const float* dy, float* dw) {
  constexpr int kRows = kTaps <= 4 ? 3 : 2;
  const Count down = s.dilation_height * s.width * kLine, of_weights = s.kernel_width * kLine;
  Count ky = 0;
  for (; ky + kRows <= s.kernel_height; ky += kRows) {
    add_taps<kRows, kTaps, kStep>(s, rows, x + ky * down, dy, dw + ky * of_weights);
  }
  for (; ky < s.kernel_height; ++ky) add_taps<1, kTaps, kStep>(s, rows, x + ky * down, dy, dw + ky * of_weights);
}

constexpr Count kMostTaps = 7;  ///< neighbours that are summed together

template <int kStep>
void add_all(const DepthwiseShape& s, Count rows, const float* x, const float* dy, float* dw) {
  constexpr decltype(&add_columns<1, kStep>) kOf[kMostTaps] = {
      add_columns<1, kStep>, add_columns<2, kStep>, add_columns<3, kStep>, add_columns<4, kStep>,
      add_columns<5, kStep>, add_columns<6, kStep>, add_columns<7, kStep>};
  for (Count kx = 0; kx < s.kernel_width; kx += kMostTaps) {
    const Count taps = s.kernel_width - kx < kMostTaps ? s.kernel_width - kx : kMostTaps;
    kOf[taps - 1](s, rows, x + kx * s.dilation_width * kLine, dy, dw + kx * kLine);
  }
}

void gradient(const DepthwiseShape& s, Count rows, const float* x, const float* dy, float* dw) {
  (s.dilation_width == 1 ? add_all<1> : add_all<0>)(s, rows, x, dy, dw);
}

}  // namespace

void add_depthwise(Loops& loops) { loops.depthwise = {pad, correlate, gradient}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
