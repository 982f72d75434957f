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
void forward_of(const Tile& tile, const ChannelTerms& terms, const float* x, const float* residual, float* y) {
  for (Count p = 0; p < tile.pixels; ++p) {
    Count at = p * tile.pixel_stride;
    for (Count c = 0; c < tile.channels; ++c) {
      const float mean = terms.mean[c], slope = terms.slope[c], shift = terms.shift[c];
      for (Count lane = 0; lane < tile.width; lane += kLanes, at += kLanes) {
        Vector v = (load(x + at) - mean) * slope + shift;
        if (kResidual) v += load(residual + at);
        if (kRelu) v = Vector{} > v ? Vector{} : v;  // NaN stays
        store(y + at, v);
      }
    }
  }
}

void forward(const Tile& tile, const ChannelTerms& terms, const float* x, const float* residual, bool relu, float* y) {
  if (residual != nullptr) {
    (relu ? forward_of<true, true> : forward_of<true, false>)(tile, terms, x, residual, y);
  } else {
    (relu ? forward_of<false, true> : forward_of<false, false>)(tile, terms, x, residual, y);
  }
}

template <bool kRelu>
void backward_sums_of(const Tile& tile, const float* x, const float* mean, const float* y, float* dy, double* sum,
                      double* products) {
  const LaneMask mask(tile);
  ChannelSums sums;
  for (Count p = 0; p < tile.pixels; ++p) {
    Count at = p * tile.pixel_stride;
    for (Count c = 0; c < tile.channels; ++c) {
      Vector s{}, q{};
      for (Count lane = 0; lane < tile.width; lane += kLanes, at += kLanes) {
        Vector d = keep(mask.at(lane), load(dy + at));
        if (kRelu) {
          d = keep(load(y + at) > Vector{}, d);
          store(dy + at, d);
        }
        s += d;
        q += d * keep(mask.at(lane), load(x + at) - mean[c]);
      }
      sums.first[c] += s;
      sums.second[c] += q;
    }
  }
  sums.to(tile, sum, products);
}

void backward_sums(const Tile& tile, const float* x, const float* mean, const float* y, float* dy, double* sum,
                   double* products) {
  (y != nullptr ? backward_sums_of<true> : backward_sums_of<false>)(tile, x, mean, y, dy, sum, products);
}

void backward(const Tile& tile, const ChannelTerms& terms, const float* x, const float* dy, float* dx) {
  const LaneMask mask(tile);
  for (Count p = 0; p < tile.pixels; ++p) {
    Count at = p * tile.pixel_stride;
    for (Count c = 0; c < tile.channels; ++c) {
      const float mean = terms.mean[c], slope = terms.slope[c], tilt = terms.tilt[c], shift = terms.shift[c];
      for (Count lane = 0; lane < tile.width; lane += kLanes, at += kLanes) {
        const Vector v = slope * load(dy + at) + (tilt * (load(x + at) - mean) + shift);
        store(dx + at, keep(mask.at(lane), v));
      }
    }
  }
}

}  // namespace

void add_batch_norm(Loops& loops) { loops.batch_norm = {sums, forward, backward_sums, backward}; }

// Batch normalisation with the channels innermost: a vector holds one pixel of kLanes channels.

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

/// Differences from a channel's first value are summed, as above.
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
    const Vector shift = load(terms.shift + channel);
    for_each_pixel(tile, channel, [&](Count at, Count) {
      Vector v = (lanes.get(x + at) - mean) * slope + shift;
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

template <bool kRelu>
void backward_sums_of(const Tile& tile, const float* x, const float* mean, const float* y, float* dy, double* sum,
                      double* products) {
  for_each_vector(tile.channels, [&](Count channel, auto lanes) {
    const Vector origin = lanes.get(mean + channel);
    PixelSums sums;
    for_each_pixel(tile, channel, [&](Count at, Count i) {
      Vector d = lanes.get(dy + at);
      if (kRelu) {
        d = keep(lanes.get(y + at) > Vector{}, d);
        lanes.put(dy + at, d);
      }
      sums.first[i] += d;
      sums.second[i] += d * (lanes.get(x + at) - origin);
    });
    sums.to(lanes.count, sum + channel, products + channel);
  });
}

void backward_sums(const Tile& tile, const float* x, const float* mean, const float* y, float* dy, double* sum,
                   double* products) {
  (y != nullptr ? backward_sums_of<true> : backward_sums_of<false>)(tile, x, mean, y, dy, sum, products);
}

void backward(const Tile& tile, const ChannelTerms& terms, const float* x, const float* dy, float* dx) {
  for_each_vector(tile.channels, [&](Count channel, auto lanes) {
    const Vector mean = load(terms.mean + channel), slope = load(terms.slope + channel);
    const Vector tilt = load(terms.tilt + channel), shift = load(terms.shift + channel);
    for_each_pixel(tile, channel, [&](Count at, Count) {
      lanes.put(dx + at, slope * lanes.get(dy + at) + (tilt * (lanes.get(x + at) - mean) + shift));
    });
  });
}

}  // namespace

void add_channels_batch_norm(Loops& loops) { loops.channels_batch_norm = {sums, forward, backward_sums, backward}; }

// Lanes are examples and each has its own statistics, so that a vector of lanes is normalised at once. Only the
// gradients of gamma and beta are summed across a vector.

namespace {

/// means[i][lane] = the mean over the elements of the i-th sum that `add` adds to: runs of 32 in float, these in
/// double. A run is read for all lanes at a time: 8 KiB, contiguous. \param add called as add(sums, element, lane)
template <int kSums, typename Add>
void means_of(const Columns& columns, float (*means)[kMaximumLanes], const Add& add) {
  constexpr Count kRun = 32;
  double totals[kSums][kMaximumLanes] = {};
  for (Count first = 0; first < columns.elements; first += kRun) {
    const Count last = columns.elements - first < kRun ? columns.elements : first + kRun;
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      Vector sums[kSums] = {};
      for (Count e = first; e < last; ++e) add(sums, e, lane);
      for (int sum = 0; sum < kSums; ++sum) {
        for (Count i = 0; i < kLanes; ++i) totals[sum][lane + i] += static_cast<double>(sums[sum][i]);
      }
    }
  }
  for (int sum = 0; sum < kSums; ++sum) {
    for (Count lane = 0; lane < columns.lanes; ++lane) {
      means[sum][lane] = static_cast<float>(totals[sum][lane] / static_cast<double>(columns.elements));
    }
  }
}

void moments(const Columns& columns, const float* x, float epsilon, float* mean, float* inverse) {
  float means[1][kMaximumLanes];
  means_of<1>(columns, means, [&](Vector* sum, Count e, Count lane) { *sum += load(x + e * columns.stride + lane); });
  for (Count lane = 0; lane < columns.lanes; ++lane) mean[lane] = means[0][lane];
  means_of<1>(columns, means, [&](Vector* sum, Count e, Count lane) {
    const Vector v = load(x + e * columns.stride + lane) - load(mean + lane);
    *sum += v * v;
  });
  for (Count lane = 0; lane < columns.lanes; ++lane) inverse[lane] = 1.0F / __builtin_sqrtf(means[0][lane] + epsilon);
}

void forward(const Columns& columns, const float* x, const float* mean, const float* inverse, const float* gamma,
             const float* beta, float* y) {
  for (Count e = 0; e < columns.elements; ++e) {
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Count at = e * columns.stride + lane;
      store(y + at, (load(x + at) - load(mean + lane)) * load(inverse + lane) * gamma[e] + beta[e]);
    }
  }
}

void backward(const Columns& columns, const float* x, const float* mean, const float* inverse, const float* gamma,
              const float* dy, float* dx) {
  const auto normal = [&](Count e, Count lane) {
    return (load(x + e * columns.stride + lane) - load(mean + lane)) * load(inverse + lane);
  };
  float means[2][kMaximumLanes];  // of d = gamma dy, and of d x̂
  means_of<2>(columns, means, [&](Vector* sums, Count e, Count lane) {
    const Vector d = load(dy + e * columns.stride + lane) * gamma[e];
    sums[0] += d;
    sums[1] += d * normal(e, lane);
  });
  for (Count e = 0; e < columns.elements; ++e) {
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Count at = e * columns.stride + lane;
      const Vector through = load(means[0] + lane) + normal(e, lane) * load(means[1] + lane);
      store(dx + at, load(inverse + lane) * (load(dy + at) * gamma[e] - through));
    }
  }
}

void parameters(const Columns& columns, const float* x, const float* mean, const float* inverse, const float* dy,
                double* dgamma, double* dbeta) {
  std::int32_t used[kMaximumLanes];
  for (Count lane = 0; lane < kMaximumLanes; ++lane) used[lane] = lane < columns.used ? -1 : 0;
  for (Count e = 0; e < columns.elements; ++e) {
    Vector products{}, sum{};
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Count at = e * columns.stride + lane;
      const Vector d = load(dy + at);
      const Vector normal = (load(x + at) - load(mean + lane)) * load(inverse + lane);
      sum += keep(load(used + lane), d);
      products += keep(load(used + lane), d * normal);
    }
    dgamma[e] += total(products);
    dbeta[e] += total(sum);
  }
}

}  // namespace

void add_layer_norm(Loops& loops) { loops.layer_norm = {moments, forward, backward, parameters}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
