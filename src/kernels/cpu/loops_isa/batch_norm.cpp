#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// How many floats ahead to prefetch in loops with a single stream from memory. It makes them a third faster, measured
/// on activations that no cache holds.
constexpr Count kAhead = 4096;

/// −1 in the lanes that are used, else 0.
struct LaneMask {
  std::int32_t lanes[kMaximumLanes];
  explicit LaneMask(const Tile& tile) {
    for (Count lane = 0; lane < kMaximumLanes; ++lane) lanes[lane] = lane < tile.used ? -1 : 0;
  }
  Integers at(Count lane) const { return load(lanes + lane); }
};

/// Two sums for each channel of a tile. A vector sum has `pixels` terms, each of which adds up the lanes of a pixel;
/// the rest is added in double.
struct ChannelSums {
  Vector first[kTileChannels] = {}, second[kTileChannels] = {};
  void to(const Tile& tile, double* firsts, double* seconds) const {
    for (Count c = 0; c < tile.channels; ++c) {
      firsts[c] = total(first[c]);
      seconds[c] = total(second[c]);
    }
  }
};

/// Differences from a channel's first value are summed, so that the variance does not cancel where the mean is much
/// larger than the deviation.
void sums(const Tile& tile, const float* x, double* sum, double* squares) {
  const LaneMask mask(tile);
  ChannelSums sums;
  for (Count p = 0; p < tile.pixels; ++p) {
    const float* row = x + p * tile.pixel_stride;
    for (Count c = 0; c < tile.channels; ++c, row += tile.width) {
      Vector s{}, q{};
      for (Count lane = 0; lane < tile.width; lane += kLanes) {
        __builtin_prefetch(row + lane + kAhead);
        const Vector v = keep(mask.at(lane), load(row + lane) - x[c * tile.width]);
        s += v;
        q += v * v;
      }
      sums.first[c] += s;
      sums.second[c] += q;
    }
  }
  sums.to(tile, sum, squares);
  const auto n = static_cast<double>(tile.pixels * tile.used);
  for (Count c = 0; c < tile.channels; ++c) {
    const auto origin = static_cast<double>(x[c * tile.width]);
    squares[c] += origin * (2 * sum[c] + n * origin);
    sum[c] += n * origin;
  }
}

template <bool kResidual, bool kRelu>
void forward(const Tile& tile, const ChannelTerms& terms, const float* x, const float* residual, float* y) {
  for (Count p = 0; p < tile.pixels; ++p) {
    Count at = p * tile.pixel_stride;
    for (Count c = 0; c < tile.channels; ++c) {
      const Vector mean = broadcast(terms.mean[c]), slope = broadcast(terms.slope[c]), beta = broadcast(terms.beta[c]);
      for (Count lane = 0; lane < tile.width; lane += kLanes, at += kLanes) {
        Vector v = multiply_add(load(x + at) - mean, slope, beta);
        if (kResidual) v += load(residual + at);
        if (kRelu) v = Vector{} > v ? Vector{} : v;  // NaN stays
        store(y + at, v);
      }
    }
  }
}

template <ReluMask relu_mask>
void backward_sums(const Tile& tile, const ChannelTerms& terms, const float* x, const float* y, float* dy, double* sum,
                   double* products) {
  const LaneMask mask(tile);
  ChannelSums sums;
  for (Count p = 0; p < tile.pixels; ++p) {
    Count at = p * tile.pixel_stride;
    for (Count c = 0; c < tile.channels; ++c) {
      const Vector mean = broadcast(terms.mean[c]), slope = broadcast(terms.slope[c]), beta = broadcast(terms.beta[c]);
      Vector s{}, q{};
      for (Count lane = 0; lane < tile.width; lane += kLanes, at += kLanes) {
        Vector d = keep(mask.at(lane), load(dy + at));
        const Vector distance = load(x + at) - mean;
        if (relu_mask == ReluMask::from_output) {
          d = keep(load(y + at) > Vector{}, d);
          store(dy + at, d);
        }
        if (relu_mask == ReluMask::from_input) d = keep(multiply_add(distance, slope, beta) > Vector{}, d);
        s += d;
        q += d * keep(mask.at(lane), distance);
      }
      sums.first[c] += s;
      sums.second[c] += q;
    }
  }
  sums.to(tile, sum, products);
}

template <bool kMasks>
void backward(const Tile& tile, const ChannelTerms& terms, const float* x, const float* dy, float* dx) {
  const LaneMask mask(tile);
  for (Count p = 0; p < tile.pixels; ++p) {
    Count at = p * tile.pixel_stride;
    for (Count c = 0; c < tile.channels; ++c) {
      const Vector mean = broadcast(terms.mean[c]), slope = broadcast(terms.slope[c]), beta = broadcast(terms.beta[c]);
      const float tilt = terms.tilt[c], shift = terms.shift[c];
      for (Count lane = 0; lane < tile.width; lane += kLanes, at += kLanes) {
        const Vector distance = load(x + at) - mean;
        Vector d = load(dy + at);
        if (kMasks) d = keep(multiply_add(distance, slope, beta) > Vector{}, d);
        store(dx + at, keep(mask.at(lane), slope * d + (tilt * distance + shift)));
      }
    }
  }
}

}  // namespace

void add_batch_norm(Loops& loops) {
  loops.batch_norm = {
      .sums = sums,
      .forward = {{forward<false, false>, forward<false, true>}, {forward<true, false>, forward<true, true>}},
      .backward_sums = {backward_sums<ReluMask::none>, backward_sums<ReluMask::from_output>,
                        backward_sums<ReluMask::from_input>},
      .backward = {backward<false>, backward<true>}};
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
