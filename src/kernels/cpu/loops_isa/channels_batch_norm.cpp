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
void forward(const Tile& tile, const ChannelTerms& terms, const float* x, const float* residual, float* y) {
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

template <ReluMask mask>
void backward_sums(const Tile& tile, const ChannelTerms& terms, const float* x, const float* y, float* dy, double* sum,
                   double* products) {
  for_each_vector(tile.channels, [&](Count channel, auto lanes) {
    const Vector mean = load(terms.mean + channel), slope = load(terms.slope + channel);
    const Vector beta = load(terms.beta + channel);
    PixelSums sums;
    for_each_pixel(tile, channel, [&](Count at, Count i) {
      Vector d = lanes.get(dy + at);
      const Vector distance = lanes.get(x + at) - mean;
      if (mask == ReluMask::from_output) {
        d = keep(lanes.get(y + at) > Vector{}, d);
        lanes.put(dy + at, d);
      }
      if (mask == ReluMask::from_input) d = keep(multiply_add(distance, slope, beta) > Vector{}, d);
      sums.first[i] += d;
      sums.second[i] += d * distance;
    });
    sums.to(lanes.count, sum + channel, products + channel);
  });
}

template <bool kMasks>
void backward(const Tile& tile, const ChannelTerms& terms, const float* x, const float* dy, float* dx) {
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

}  // namespace

void add_channels_batch_norm(Loops& loops) {
  loops.channels_batch_norm = {
      .sums = sums,
      .forward = {{forward<false, false>, forward<false, true>}, {forward<true, false>, forward<true, true>}},
      .backward_sums = {backward_sums<ReluMask::none>, backward_sums<ReluMask::from_output>,
                        backward_sums<ReluMask::from_input>},
      .backward = {backward<false>, backward<true>}};
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
