// Batch normalisation with the channels innermost: a vector holds one pixel of kLanes channels.
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kPixels = 4;  ///< with sums of their own, to hide the latency of additions

/// Two sums for each lane. A vector sum has pixels / kPixels terms; the rest is added in double.
struct PixelSums {
  Vector first[kPixels] = {}, second[kPixels] = {};
  void to(Count lanes, double* firsts, double* seconds) const {
    for (Count lane = 0; lane < lanes; ++lane) {
      firsts[lane] = seconds[lane] = 0;
      for (Count i = 0; i < kPixels; ++i) {
        firsts[lane] += static_cast<double>(first[i][lane]);
        seconds[lane] += static_cast<double>(second[i][lane]);
      }
    }
  }
};

/// Calls work(position of a pixel's vector, which sum it belongs to).
template <typename Work>
inline void for_each_pixel(const Tile& tile, Count channel, const Work& work) {
  Count p = 0;
  for (; p + kPixels <= tile.pixels; p += kPixels) {
#pragma GCC unroll 4
    for (Count i = 0; i < kPixels; ++i) work((p + i) * tile.pixel_stride + channel, i);
  }
  for (Count i = 0; p < tile.pixels; ++p, ++i) work(p * tile.pixel_stride + channel, i);
}

/// Differences from a channel's first value are summed, as in batch_norm.cpp.
void sums(const Tile& tile, const float* x, double* sum, double* squares) {
  for_each_vector(tile.channels, [&](Count channel, auto lanes) {
    const Vector origin = lanes.get(x + channel);
    PixelSums sums;
    for_each_pixel(tile, channel, [&](Count at, Count i) {
      const Vector v = lanes.get(x + at) - origin;
      sums.first[i] += v;
      sums.second[i] += v * v;
    });
    sums.to(lanes.count, sum + channel, squares + channel);
  });
  const auto n = static_cast<double>(tile.pixels);
  for (Count c = 0; c < tile.channels; ++c) {
    const auto origin = static_cast<double>(x[c]);
    squares[c] += origin * (2 * sum[c] + n * origin);
    sum[c] += n * origin;
  }
}

template <bool kResidual, bool kRelu>
void forward_of(const Tile& tile, const ChannelTerms& terms, const float* x, const float* residual, float* y) {
  for_each_vector(tile.channels, [&](Count channel, auto lanes) {
    const Vector mean = load(terms.mean + channel), slope = load(terms.slope + channel);
    const Vector beta = load(terms.beta + channel);
    for_each_pixel(tile, channel, [&](Count at, Count) {
      Vector v = multiply_add(lanes.get(x + at) - mean, slope, beta);
      if (kResidual) v += lanes.get(residual + at);
      if (kRelu) v = Vector{} > v ? Vector{} : v;  // NaN stays
      lanes.put(y + at, v);
    });
  });
}

void forward(const Tile& tile, const ChannelTerms& terms, const float* x, const float* residual, bool relu, float* y) {
  if (residual != nullptr) {
    (relu ? forward_of<true, true> : forward_of<true, false>)(tile, terms, x, residual, y);
  } else {
    (relu ? forward_of<false, true> : forward_of<false, false>)(tile, terms, x, residual, y);
  }
}

template <ReluMask relu_mask>
void backward_sums_of(const Tile& tile, const ChannelTerms& terms, const float* x, const float* y, float* dy,
                      double* sum, double* products) {
  for_each_vector(tile.channels, [&](Count channel, auto lanes) {
    const Vector mean = load(terms.mean + channel), slope = load(terms.slope + channel);
    const Vector beta = load(terms.beta + channel);
    PixelSums sums;
    for_each_pixel(tile, channel, [&](Count at, Count i) {
      Vector d = lanes.get(dy + at);
      const Vector distance = lanes.get(x + at) - mean;
      if (relu_mask == ReluMask::from_output) {
        d = keep(lanes.get(y + at) > Vector{}, d);
        lanes.put(dy + at, d);
      }
      if (relu_mask == ReluMask::from_input) d = keep(multiply_add(distance, slope, beta) > Vector{}, d);
      sums.first[i] += d;
      sums.second[i] += d * distance;
    });
    sums.to(lanes.count, sum + channel, products + channel);
  });
}

void backward_sums(const Tile& tile, const ChannelTerms& terms, ReluMask mask, const float* x, const float* y,
                   float* dy, double* sum, double* products) {
  switch (mask) {
    case ReluMask::none:
      return backward_sums_of<ReluMask::none>(tile, terms, x, y, dy, sum, products);
    case ReluMask::from_output:
      return backward_sums_of<ReluMask::from_output>(tile, terms, x, y, dy, sum, products);
    case ReluMask::from_input:
      return backward_sums_of<ReluMask::from_input>(tile, terms, x, y, dy, sum, products);
  }
}

template <bool kMasks>
void backward_of(const Tile& tile, const ChannelTerms& terms, const float* x, const float* dy, float* dx) {
  for_each_vector(tile.channels, [&](Count channel, auto lanes) {
    const Vector mean = load(terms.mean + channel), slope = load(terms.slope + channel);
    const Vector beta = load(terms.beta + channel);
    const Vector tilt = load(terms.tilt + channel), shift = load(terms.shift + channel);
    for_each_pixel(tile, channel, [&](Count at, Count) {
      const Vector distance = lanes.get(x + at) - mean;
      Vector d = lanes.get(dy + at);
      if (kMasks) d = keep(multiply_add(distance, slope, beta) > Vector{}, d);
      lanes.put(dx + at, slope * d + (tilt * distance + shift));
    });
  });
}

void backward(const Tile& tile, const ChannelTerms& terms, bool masks, const float* x, const float* dy, float* dx) {
  (masks ? backward_of<true> : backward_of<false>)(tile, terms, x, dy, dx);
}

}  // namespace

void add_channels_batch_norm(Loops& loops) { loops.channels_batch_norm = {sums, forward, backward_sums, backward}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
