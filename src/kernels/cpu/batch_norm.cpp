// Batch normalisation, Ioffe & Szegedy, ICML 2015, in four passes; between them the caller may sum over ranks. `sums`
// [2C + 1] are two sums for each channel, and the number of values per channel.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "cpu/cpu_backend.hpp"
#include "cpu/thread_team.hpp"

namespace unisono::kernels::cpu {
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

void CpuBackend::batch_norm_sums(const NormSpec& spec, Index batch, View x, std::span<double> sums) {
  if (batch == 0) {
    std::ranges::fill(sums, 0.0);
    return;
  }
  const Lanes lanes = this->lanes(spec.extent, batch);
  const Tiles tiles(spec.extent, lanes);
  const BatchNormLoops& loops = batch_norm_loops_of(lanes);
  double* tile_sums = partials_.doubles(2 * kTileChannels * tiles.count());
  parallel_for(settings_.threads, tiles.count(), [&](Index i) {
    const Tiles::TileRange part = tiles.part(i);
    double* to = tile_sums + 2 * kTileChannels * i;
    loops.sums(part.tile, x.data() + part.offset, to, to + kTileChannels);
  });
  tiles.add_up(tile_sums, sums);
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

void CpuBackend::batch_norm_forward(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                    View gamma, View beta, View residual, MutableView y) {
  assert(spec.activation == Activation::none || spec.activation == Activation::relu);
  const Lanes lanes = this->lanes(spec.extent, batch);
  const Tiles tiles(spec.extent, lanes);
  const BatchNormLoops& loops = batch_norm_loops_of(lanes);
  parallel_for(settings_.threads, tiles.count(), [&](Index i) {
    const auto [tile, offset, channel] = tiles.part(i);
    ChannelTerms terms{};
    for (Count c = 0; c < tile.channels; ++c) {
      const auto k = static_cast<std::size_t>(channel + c);
      terms.mean[c] = mean[k];
      terms.slope[c] = gamma[k] * inverse_deviation[k];
      terms.shift[c] = beta[k];
    }
    loops.forward(tile, terms, x.data() + offset, residual.empty() ? nullptr : residual.data() + offset,
                  spec.activation == Activation::relu, y.data() + offset);
  });
}

void CpuBackend::batch_norm_backward_sums(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                          View y, MutableView dy, std::span<double> sums) {
  if (batch == 0) {
    std::ranges::fill(sums, 0.0);
    return;
  }
  const Lanes lanes = this->lanes(spec.extent, batch);
  const Tiles tiles(spec.extent, lanes);
  const BatchNormLoops& loops = batch_norm_loops_of(lanes);
  const bool relu = spec.activation == Activation::relu;
  double* tile_sums = partials_.doubles(2 * kTileChannels * tiles.count());
  parallel_for(settings_.threads, tiles.count(), [&](Index i) {
    const auto [tile, offset, channel] = tiles.part(i);
    double* to = tile_sums + 2 * kTileChannels * i;
    loops.backward_sums(tile, x.data() + offset, mean.data() + channel, relu ? y.data() + offset : nullptr,
                        dy.data() + offset, to, to + kTileChannels);
  });
  tiles.add_up(tile_sums, sums);
  const auto channels = static_cast<std::size_t>(spec.extent.channels);
  for (std::size_t c = 0; c < channels; ++c) sums[channels + c] *= static_cast<double>(inverse_deviation[c]);
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
void CpuBackend::batch_norm_backward(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                     View gamma, View dy, std::span<const double> sums, MutableView dx) {
  const Lanes lanes = this->lanes(spec.extent, batch);
  const Tiles tiles(spec.extent, lanes);
  const BatchNormLoops& loops = batch_norm_loops_of(lanes);
  const auto channels = static_cast<std::size_t>(spec.extent.channels);
  const double count = sums[2 * channels], share = count == 0 ? 0 : 1 / count;
  parallel_for(settings_.threads, tiles.count(), [&](Index i) {
    const auto [tile, offset, channel] = tiles.part(i);
    ChannelTerms terms{};
    for (Count c = 0; c < tile.channels; ++c) {
      const auto k = static_cast<std::size_t>(channel + c);
      const double inverse = static_cast<double>(inverse_deviation[k]);
      const double slope = static_cast<double>(gamma[k]) * inverse;
      terms.mean[c] = mean[k];
      terms.slope[c] = static_cast<float>(slope);
      terms.tilt[c] = static_cast<float>(-slope * inverse * sums[channels + k] * share);
      terms.shift[c] = static_cast<float>(-slope * sums[k] * share);
    }
    loops.backward(tile, terms, x.data() + offset, dy.data() + offset, dx.data() + offset);
  });
}

}  // namespace unisono::kernels::cpu
