#include <algorithm>
#include <cassert>
#include <cmath>

#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {

// Batch normalisation, Ioffe & Szegedy, ICML 2015, in four passes; between them the caller may sum over ranks. `sums`
// [2C + 1] are two sums for each channel, and the number of values per channel.

namespace {

/// A batch of activations, cut into tiles of equal size: 32 pixels × kTileChannels × 64 lanes are 128 KiB, so that what
/// a tile reads twice comes from the level-2 cache. With the channels innermost, the pixels of all examples are one
/// row.
class Tiles {
 public:
  struct TileRange {
    Tile tile;
    Index offset;   ///< of its first float
    Index channel;  ///< its first
  };

  Tiles(const Extent& extent, const Lanes& lanes)
      : lanes_(lanes),
        blocks_(lanes.innermost() == Innermost::channels ? 1 : lanes.blocks),
        channels_(extent.channels),
        pixels_(extent.height * extent.width * lanes.blocks / blocks_),
        pixels_at_once_(lanes.innermost() == Innermost::channels ? 512 : 32),
        groups_((channels_ + kTileChannels - 1) / kTileChannels),
        runs_((pixels_ + pixels_at_once_ - 1) / pixels_at_once_),
        values_(static_cast<double>(lanes.batch * extent.height * extent.width)) {}

  Index count() const { return blocks_ * runs_ * groups_; }

  TileRange part(Index number) const {
    const Index block = number / (runs_ * groups_);
    const Index pixel = number / groups_ % runs_ * pixels_at_once_, channel = number % groups_ * kTileChannels;
    const Tile tile{std::min(pixels_at_once_, pixels_ - pixel), std::min(kTileChannels, channels_ - channel),
                    lanes_.width, lanes_.used(block), channels_ * lanes_.width};
    return {tile, ((block * pixels_ + pixel) * channels_ + channel) * lanes_.width, channel};
  }

  /// sums[c] and sums[channels + c] = the tiles' sums of channel c, added up in the tiles' order; then the number of
  /// values per channel. \param tile_sums [count()][2][kTileChannels]
  void add_up(const double* tile_sums, std::span<double> sums) const {
    std::ranges::fill(sums, 0.0);
    for (Index number = 0; number < count(); ++number, tile_sums += 2 * kTileChannels) {
      const Index channel = number % groups_ * kTileChannels;
      for (Index c = 0; c < std::min(kTileChannels, channels_ - channel); ++c) {
        sums[static_cast<std::size_t>(channel + c)] += tile_sums[c];
        sums[static_cast<std::size_t>(channels_ + channel + c)] += tile_sums[kTileChannels + c];
      }
    }
    sums[static_cast<std::size_t>(2 * channels_)] = values_;
  }

 private:
  Lanes lanes_;
  Index blocks_, channels_, pixels_, pixels_at_once_;
  Index groups_, runs_;  ///< of channels, of pixels
  double values_;        ///< the number of values per channel
};

float inverse_of(double variance, double epsilon) { return static_cast<float>(1.0 / std::sqrt(variance + epsilon)); }

}  // namespace

const BatchNormLoops& CpuBackend::batch_norm_loops_of(const Lanes& lanes) const {
  return lanes.innermost() == Innermost::channels ? loops_.channels_batch_norm : loops_of(lanes).batch_norm;
}

template <typename Add>
void CpuBackend::add_up_tiles(const NormSpec& spec, Index batch, std::span<double> sums, const Add& add) {
  if (batch == 0) {
    std::ranges::fill(sums, 0.0);
    return;
  }
  const Lanes lanes = this->lanes(spec.extent, batch);
  const Tiles tiles(spec.extent, lanes);
  const BatchNormLoops& loops = batch_norm_loops_of(lanes);
  double* tile_sums = partials_.doubles(2 * kTileChannels * tiles.count());
  parallel_for(settings_.threads, tiles.count(), [&](Index i) {
    double* const to = tile_sums + 2 * kTileChannels * i;
    add(loops, tiles.part(i), to, to + kTileChannels);
  });
  tiles.add_up(tile_sums, sums);
}

void CpuBackend::batch_norm_sums(const NormSpec& spec, Index batch, View x, std::span<double> sums) {
  add_up_tiles(spec, batch, sums, [&](const BatchNormLoops& loops, const auto& part, double* sum, double* squares) {
    loops.sums(part.tile, x.data() + part.offset, sum, squares);
  });
}

// In double: where the mean is 2¹³ deviations, the difference loses about half of its 53 bits, and still has more than
// a float.
void CpuBackend::batch_norm_moments(const NormSpec& spec, std::span<const double> sums, double momentum,
                                    MutableView running_mean, MutableView running_variance, MutableView mean,
                                    MutableView inverse_deviation) {
  const auto channels = static_cast<std::size_t>(spec.extent.channels);
  const double n = sums[2 * channels];
  if (n == 0) return;
  const auto follow = [momentum](float& running, double value) {
    running = static_cast<float>((1 - momentum) * static_cast<double>(running) + momentum * value);
  };
  for (std::size_t c = 0; c < channels; ++c) {
    const double average = sums[c] / n, variance = std::max(0.0, sums[channels + c] / n - average * average);
    if (!mean.empty()) {
      mean[c] = static_cast<float>(average);
      inverse_deviation[c] = inverse_of(variance, spec.epsilon);
    }
    if (running_mean.empty()) continue;
    follow(running_mean[c], average);
    follow(running_variance[c], variance * n / std::max(1.0, n - 1));
  }
}

void CpuBackend::batch_norm_running_moments(const NormSpec& spec, View running_mean, View running_variance,
                                            MutableView mean, MutableView inverse_deviation) {
  for (std::size_t c = 0; c < static_cast<std::size_t>(spec.extent.channels); ++c) {
    mean[c] = running_mean[c];
    inverse_deviation[c] = inverse_of(static_cast<double>(running_variance[c]), spec.epsilon);
  }
}

namespace {

/// The terms of a tile's channels in the forward pass.
ChannelTerms forward_terms(const NormTerms& terms, Index channel, Index count) {
  ChannelTerms of_tile{};
  for (Index c = 0; c < count; ++c) {
    const auto k = static_cast<std::size_t>(channel + c);
    of_tile.mean[c] = terms.mean[k];
    of_tile.slope[c] = terms.gamma[k] * terms.inverse_deviation[k];
    of_tile.beta[c] = terms.beta[k];
  }
  return of_tile;
}

}  // namespace

void CpuBackend::batch_norm_forward(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View residual,
                                    MutableView y) {
  assert(spec.activation == Activation::none || spec.activation == Activation::relu);
  const Lanes lanes = this->lanes(spec.extent, batch);
  const Tiles tiles(spec.extent, lanes);
  const bool relu = spec.activation == Activation::relu;
  const auto forward = batch_norm_loops_of(lanes).forward[residual.empty() ? 0 : 1][relu ? 1 : 0];
  parallel_for(settings_.threads, tiles.count(), [&](Index i) {
    const auto [tile, offset, channel] = tiles.part(i);
    forward(tile, forward_terms(terms, channel, tile.channels), x.data() + offset,
            residual.empty() ? nullptr : residual.data() + offset, y.data() + offset);
  });
}

void CpuBackend::batch_norm_backward_sums(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View y,
                                          MutableView dy, std::span<double> sums) {
  const auto mask = static_cast<std::size_t>(spec.relu_mask());
  add_up_tiles(spec, batch, sums, [&](const BatchNormLoops& loops, const auto& part, double* sum, double* products) {
    const auto [tile, offset, channel] = part;
    loops.backward_sums[mask](tile, forward_terms(terms, channel, tile.channels), x.data() + offset,
                              y.empty() ? nullptr : y.data() + offset, dy.data() + offset, sum, products);
  });
  if (batch == 0) return;
  const auto channels = static_cast<std::size_t>(spec.extent.channels);
  for (std::size_t c = 0; c < channels; ++c) sums[channels + c] *= static_cast<double>(terms.inverse_deviation[c]);
}

void CpuBackend::batch_norm_parameter_gradients(const NormSpec& spec, std::span<const double> sums, MutableView dgamma,
                                                MutableView dbeta, Write write) {
  const auto channels = static_cast<std::size_t>(spec.extent.channels);
  const auto give = [write](float& gradient, double sum) {
    gradient = (write == Write::add ? gradient : 0) + static_cast<float>(sum);
  };
  for (std::size_t c = 0; c < channels; ++c) {
    give(dbeta[c], sums[c]);
    give(dgamma[c], sums[channels + c]);
  }
}

// With i = inverse_deviation:  dx = γ i dy − (γ i² Σ dy x̂ / count) (x − mean) − γ i Σ dy / count
void CpuBackend::batch_norm_backward(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View dy,
                                     std::span<const double> sums, MutableView dx) {
  const Lanes lanes = this->lanes(spec.extent, batch);
  const Tiles tiles(spec.extent, lanes);
  const auto backward = batch_norm_loops_of(lanes).backward[spec.relu_mask() == ReluMask::from_input ? 1 : 0];
  const auto channels = static_cast<std::size_t>(spec.extent.channels);
  const double count = sums[2 * channels], share = count == 0 ? 0 : 1 / count;
  parallel_for(settings_.threads, tiles.count(), [&](Index i) {
    const auto [tile, offset, channel] = tiles.part(i);
    ChannelTerms of_tile = forward_terms(terms, channel, tile.channels);
    for (Count c = 0; c < tile.channels; ++c) {
      const auto k = static_cast<std::size_t>(channel + c);
      const double inverse = static_cast<double>(terms.inverse_deviation[k]);
      const double slope =
          static_cast<double>(terms.gamma[k]) * inverse;  // rounded to a float, that of the forward pass
      of_tile.tilt[c] = static_cast<float>(-slope * inverse * sums[channels + k] * share);
      of_tile.shift[c] = static_cast<float>(-slope * sums[k] * share);
    }
    backward(tile, of_tile, x.data() + offset, dy.data() + offset, dx.data() + offset);
  });
}

// Layer normalisation, Ba, Kiros & Hinton 2016. Mean and deviation are computed again in the backward pass instead of
// being saved: that reads x twice more, which is in a cache for the usual widths.

namespace {

/// Activations cut into groups of examples: whole blocks, or parts of blocks where there are too few blocks for all
/// threads. Each example's result is the same in both.
class Groups {
 public:
  Groups(const Extent& extent, const Lanes& lanes, int threads)
      : size_(extent.size()),
        lanes_(lanes),
        width_(lanes.blocks >= threads ? lanes.width : std::min(lanes.width, Lanes::kVector)) {}

  Index count() const { return lanes_.blocks * lanes_.width / width_; }
  Index first_lane(Index group) const { return group * width_; }  ///< among all lanes of all blocks
  Index offset(Index group) const {
    const Index lane = first_lane(group);
    return lane / lanes_.width * size_ * lanes_.width + lane % lanes_.width;
  }
  Columns columns() const { return {size_, width_, lanes_.width, width_}; }

 private:
  Index size_;
  Lanes lanes_;
  Index width_;
};

}  // namespace

// Of pixels: their rows are computed with the channels innermost.

namespace {

constexpr Index kPixelsAtOnce = 64;    ///< whose parameters' gradients are summed in float
constexpr Index kMostPixelParts = 64;  ///< sums of parts of the pixels are added up in double

PixelRows pixel_rows(const NormSpec& spec, Index count) {
  return {count, spec.extent.channels, static_cast<float>(spec.epsilon)};
}

}  // namespace

void CpuBackend::layer_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, View beta, MutableView y) {
  assert(spec.activation == Activation::none);
  const Index pixels = spec.extent.height * spec.extent.width, channels = spec.extent.channels;
  if (spec.of_pixels && pixels > 1) {
    const View values = in_layout(Innermost::channels, spec.extent, batch, x, x_copy_);
    const MutableView to = room_in_layout(Innermost::channels, spec.extent, batch, y, y_copy_);
    parallel_ranges(settings_.threads, batch * pixels, [&](Index first, Index last, int) {
      loops_.pixels_layer_norm.forward(pixel_rows(spec, last - first), values.data() + first * channels, gamma.data(),
                                       beta.data(), to.data() + first * channels);
    });
    return settle(Innermost::channels, spec.extent, batch, to, y);
  }
  const View values = in_layout(Innermost::examples, spec.extent, batch, x, x_copy_);
  const MutableView to = room_in_layout(Innermost::examples, spec.extent, batch, y, y_copy_);
  const Lanes lanes(batch);
  const Groups groups(spec.extent, lanes, settings_.threads);
  const LayerNormLoops& loops = loops_of(lanes).layer_norm;
  parallel_for(settings_.threads, groups.count(), [&](Index group) {
    float mean[kMaximumLanes], inverse[kMaximumLanes];
    const float* from = values.data() + groups.offset(group);
    loops.moments(groups.columns(), from, static_cast<float>(spec.epsilon), mean, inverse);
    loops.forward(groups.columns(), from, mean, inverse, gamma.data(), beta.data(), to.data() + groups.offset(group));
  });
  settle(Innermost::examples, spec.extent, batch, to, y);
}

void CpuBackend::layer_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                     MutableView dgamma, MutableView dbeta, Write write) {
  assert(spec.activation == Activation::none);
  const Index pixels = spec.extent.height * spec.extent.width;
  const bool of_pixels = spec.of_pixels && pixels > 1;
  const Innermost layout = of_pixels ? Innermost::channels : Innermost::examples;
  const View values = in_layout(layout, spec.extent, batch, x, x_copy_);
  const View gradients = in_layout(layout, spec.extent, batch, dy, y_copy_);
  const MutableView to = room_in_layout(layout, spec.extent, batch, dx, dx_copy_);
  if (of_pixels) {
    pixels_layer_norm_backward(spec, batch * pixels, values, gamma, gradients, to, dgamma, dbeta, write);
  } else {
    layer_norm_backward_of_lanes(spec, batch, values, gamma, gradients, to, dgamma, dbeta, write);
  }
  settle(layout, spec.extent, batch, to, dx);
}

/// As layer_norm_backward of pixels, with the channels innermost.
void CpuBackend::pixels_layer_norm_backward(const NormSpec& spec, Index rows, View x, View gamma, View dy,
                                            MutableView dx, MutableView dgamma, MutableView dbeta, Write write) {
  const Index channels = spec.extent.channels, parts = std::clamp<Index>(rows / kPixelsAtOnce, 1, kMostPixelParts);
  const bool sums = !dgamma.empty();
  double* const totals = partials_.doubles(parts * 2 * channels);  // dγ and dβ of each part
  float* const some = packed_.floats(settings_.threads * 2 * channels);
  parallel_ranges(settings_.threads, parts, [&](Index first_part, Index last_part, int thread) {
    float* const of_some = some + thread * 2 * channels;
    for (Index part = first_part; part < last_part; ++part) {
      double* const of_part = totals + part * 2 * channels;
      std::fill_n(of_part, 2 * channels, 0.0);
      const Index last = rows * (part + 1) / parts;
      for (Index row = rows * part / parts; row < last; row += kPixelsAtOnce) {
        const Index count = std::min(kPixelsAtOnce, last - row), at = row * channels;
        std::fill_n(of_some, 2 * channels, 0.0F);
        loops_.pixels_layer_norm.backward(pixel_rows(spec, count), x.data() + at, gamma.data(), dy.data() + at,
                                          dx.empty() ? nullptr : dx.data() + at, sums ? of_some : nullptr,
                                          sums ? of_some + channels : nullptr);
        for (Index i = 0; i < 2 * channels; ++i) of_part[i] += static_cast<double>(of_some[i]);
      }
    }
  });
  if (!sums) return;
  for (Index channel = 0; channel < channels; ++channel) {
    double of_gamma = 0, of_beta = 0;
    for (Index part = 0; part < parts; ++part) {
      of_gamma += totals[part * 2 * channels + channel];
      of_beta += totals[(part * 2 + 1) * channels + channel];
    }
    const auto c = static_cast<std::size_t>(channel);
    dgamma[c] = static_cast<float>(of_gamma) + (write == Write::add ? dgamma[c] : 0.0F);
    dbeta[c] = static_cast<float>(of_beta) + (write == Write::add ? dbeta[c] : 0.0F);
  }
}

/// As layer_norm_backward, with the examples innermost.
void CpuBackend::layer_norm_backward_of_lanes(const NormSpec& spec, Index batch, View x, View gamma, View dy,
                                              MutableView dx, MutableView dgamma, MutableView dbeta, Write write) {
  const Lanes lanes(batch);
  const Groups groups(spec.extent, lanes, settings_.threads);
  const LayerNormLoops& loops = loops_of(lanes).layer_norm;
  float* mean = partials_.floats(2 * lanes.blocks * lanes.width);
  float* inverse = mean + lanes.blocks * lanes.width;
  parallel_for(settings_.threads, groups.count(), [&](Index group) {
    const Index lane = groups.first_lane(group), at = groups.offset(group);
    loops.moments(groups.columns(), x.data() + at, static_cast<float>(spec.epsilon), mean + lane, inverse + lane);
    if (dx.empty()) return;
    loops.backward(groups.columns(), x.data() + at, mean + lane, inverse + lane, gamma.data(), dy.data() + at,
                   dx.data() + at);
  });

  if (dgamma.empty()) return;
  constexpr Index kElements = 64;
  const Index size = spec.extent.size();
  parallel_for(settings_.threads, (size + kElements - 1) / kElements, [&](Index i) {
    const Index first = i * kElements, count = std::min(kElements, size - first);
    double gamma_sums[kElements] = {}, beta_sums[kElements] = {};
    for (Index block = 0; block < lanes.blocks; ++block) {
      const Index lane = block * lanes.width, at = (block * size + first) * lanes.width;
      loops.parameters({count, lanes.width, lanes.width, lanes.used(block)}, x.data() + at, mean + lane, inverse + lane,
                       dy.data() + at, gamma_sums, beta_sums);
    }
    for (Index e = 0; e < count; ++e) {
      const auto k = static_cast<std::size_t>(first + e);
      dgamma[k] = static_cast<float>(gamma_sums[e]) + (write == Write::add ? dgamma[k] : 0.0F);
      dbeta[k] = static_cast<float>(beta_sums[e]) + (write == Write::add ? dbeta[k] : 0.0F);
    }
  });
}

// RMS normalisation, Zhang & Sennrich 2019, in the same way.

void CpuBackend::rms_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, MutableView y) {
  assert(spec.activation == Activation::none);
  const View values = in_layout(Innermost::examples, spec.extent, batch, x, x_copy_);
  const MutableView to = room_in_layout(Innermost::examples, spec.extent, batch, y, y_copy_);
  const Lanes lanes(batch);
  const Groups groups(spec.extent, lanes, settings_.threads);
  const RmsNormLoops& loops = loops_of(lanes).rms_norm;
  parallel_for(settings_.threads, groups.count(), [&](Index group) {
    float inverse[kMaximumLanes];
    const float* from = values.data() + groups.offset(group);
    loops.inverse(groups.columns(), from, static_cast<float>(spec.epsilon), inverse);
    loops.forward(groups.columns(), from, inverse, gamma.data(), to.data() + groups.offset(group));
  });
  settle(Innermost::examples, spec.extent, batch, to, y);
}

void CpuBackend::rms_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                   MutableView dgamma, Write write) {
  assert(spec.activation == Activation::none);
  const View values = in_layout(Innermost::examples, spec.extent, batch, x, x_copy_);
  const View gradients = in_layout(Innermost::examples, spec.extent, batch, dy, y_copy_);
  const MutableView to = room_in_layout(Innermost::examples, spec.extent, batch, dx, dx_copy_);
  rms_norm_backward_of_lanes(spec, batch, values, gamma, gradients, to, dgamma, write);
  settle(Innermost::examples, spec.extent, batch, to, dx);
}

/// As rms_norm_backward, with the examples innermost.
void CpuBackend::rms_norm_backward_of_lanes(const NormSpec& spec, Index batch, View x, View gamma, View dy,
                                            MutableView dx, MutableView dgamma, Write write) {
  const Lanes lanes(batch);
  const Groups groups(spec.extent, lanes, settings_.threads);
  const RmsNormLoops& loops = loops_of(lanes).rms_norm;
  float* const inverse = partials_.floats(lanes.blocks * lanes.width);
  parallel_for(settings_.threads, groups.count(), [&](Index group) {
    const Index lane = groups.first_lane(group), at = groups.offset(group);
    loops.inverse(groups.columns(), x.data() + at, static_cast<float>(spec.epsilon), inverse + lane);
    if (dx.empty()) return;
    loops.backward(groups.columns(), x.data() + at, inverse + lane, gamma.data(), dy.data() + at, dx.data() + at);
  });

  if (dgamma.empty()) return;
  constexpr Index kElements = 64;
  const Index size = spec.extent.size();
  parallel_for(settings_.threads, (size + kElements - 1) / kElements, [&](Index i) {
    const Index first = i * kElements, count = std::min(kElements, size - first);
    double sums[kElements] = {};
    for (Index block = 0; block < lanes.blocks; ++block) {
      const Index at = (block * size + first) * lanes.width;
      loops.parameters({count, lanes.width, lanes.width, lanes.used(block)}, x.data() + at,
                       inverse + block * lanes.width, dy.data() + at, sums);
    }
    for (Index e = 0; e < count; ++e) {
      float& gradient = dgamma[static_cast<std::size_t>(first + e)];
      gradient = static_cast<float>(sums[e]) + (write == Write::add ? gradient : 0.0F);
    }
  });
}

}  // namespace unisono::kernels::cpu
