// Convolutions of each channel by itself, in both layouts of activations. The work is divided into lines of 16 floats:
// lanes of a channel where the examples are innermost, 16 channels of an example where the channels are. Each line's
// plane is copied with its padding, some rows at a time, into memory that stays in the cache. Each output is its bias
// and the taps in their order, in both layouts.
//
// The gradient of the inputs is a convolution of dy with the kernel turned around, where dy's pixels lie a stride
// apart.
#include <algorithm>
#include <functional>

#include "cpu/convolution.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kLine = kDepthwiseLanes;
constexpr Index kPaddedFloats = Index{1} << 15;  ///< 128 KiB of a padded plane at a time
constexpr Index kMostParts = 8;                  ///< of a batch, whose gradients of weights are summed apart
constexpr Index kGroupsAtOnce = 8;               ///< of lines: 512 bytes of each pixel where the channels are innermost

/// The lines of a batch of activations: `groups` that have weights of their own, `items` of each.
struct Lines {
  Lanes lanes;
  Index channels;

  bool are_channels() const { return lanes.innermost() == Innermost::channels; }
  Index groups() const { return are_channels() ? (channels + kLine - 1) / kLine : channels; }
  Index items() const { return are_channels() ? lanes.blocks : lanes.blocks * parts_of_block(); }
  /// Floats in use of a line of this group.
  Index used(Index group) const {
    return are_channels() ? std::min(kLine, channels - group * kLine) : std::min(kLine, lanes.width);
  }
  /// Where a line begins in activations of this extent.
  Index begin(const Extent& extent, Index item, Index group) const {
    if (are_channels()) return item * lanes.block_size(extent) + group * kLine;
    const Index block = item / parts_of_block(), part = item % parts_of_block();
    return block * lanes.block_size(extent) + group * lanes.width + part * kLine;
  }
  Index pixel() const { return channels * lanes.width; }
  /// The channel of a float of a group's lines; at least `channels`: none.
  Index channel(Index group, Index lane) const { return are_channels() ? group * kLine + lane : group; }

 private:
  Index parts_of_block() const { return std::max<Index>(1, lanes.width / kLine); }
};

/// y[i] = Σ_k w[k] x[i · stride + k · dilation] of padded planes x: a convolution, or the gradient of its inputs.
struct PlaneCorrelation {
  Extent from, to;
  PaddedPlane plane;     ///< of `from`
  DepthwiseShape shape;  ///< of `to`

  Index padded_rows(Index rows) const {
    return (rows - 1) * shape.stride_height + (shape.kernel_height - 1) * shape.dilation_height + 1;
  }
  /// Rows of the output that are computed at a time.
  Index rows_at_once() const {
    const Index most = kPaddedFloats / (plane.width * kLine) - padded_rows(1);
    return std::clamp<Index>(most / shape.stride_height + 1, 1, to.height);
  }
  Index padded_floats() const { return padded_rows(rows_at_once()) * plane.width * kLine; }
};

/// A correlation of lines, but for the number of lanes in use.
PlaneCorrelation plane_correlation(const ConvolutionSpec& spec, const Lines& lines, const Extent& from,
                                   const Extent& to) {
  PlaneCorrelation c{.from = from, .to = to, .plane = {}, .shape = {}};
  c.shape = {.columns = to.width,
             .row = to.width * lines.pixel(),
             .column = lines.pixel(),
             .kernel_height = spec.kernel_height,
             .kernel_width = spec.kernel_width,
             .dilation_height = spec.dilation_height,
             .dilation_width = spec.dilation_width};
  c.plane = {.rows = from.height, .columns = from.width, .row = from.width * lines.pixel(), .column = lines.pixel()};
  return c;
}

void set_width(PlaneCorrelation& c) {
  c.plane.width = (c.to.width - 1) * c.shape.stride_width + (c.shape.kernel_width - 1) * c.shape.dilation_width + 1;
  c.shape.width = c.plane.width;
}

PlaneCorrelation forward_of(const ConvolutionSpec& spec, const Lines& lines) {
  PlaneCorrelation c = plane_correlation(spec, lines, spec.in, spec.out());
  c.shape.stride_height = spec.stride_height;
  c.shape.stride_width = spec.stride_width;
  c.shape.relu = spec.activation == Activation::relu;
  c.plane.top = spec.padding_height;
  c.plane.left = spec.padding_width;
  set_width(c);
  return c;
}

PlaneCorrelation input_gradient_of(const ConvolutionSpec& spec, const Lines& lines) {
  PlaneCorrelation c = plane_correlation(spec, lines, spec.out(), spec.in);
  c.plane.top = (spec.kernel_height - 1) * spec.dilation_height - spec.padding_height;
  c.plane.left = (spec.kernel_width - 1) * spec.dilation_width - spec.padding_width;
  c.plane.spread_height = spec.stride_height;
  c.plane.spread_width = spec.stride_width;
  set_width(c);
  return c;
}

/// Calls work(first, last) for some rows of the output at a time.
template <typename Work>
void for_rows(const PlaneCorrelation& c, const Work& work) {
  const Index step = c.rows_at_once();
  for (Index first = 0; first < c.to.height; first += step) work(first, std::min(first + step, c.to.height));
}

/// Copies what rows [first, last) of the output need.
void pad_for(const Loops& loops, const PlaneCorrelation& c, Index lanes, Index first, Index last, const float* from,
             float* to) {
  PaddedPlane plane = c.plane;
  plane.lanes = lanes;
  const Index top = first * c.shape.stride_height;
  loops.depthwise.pad(plane, top, top + c.padded_rows(last - first), from, to);
}

/// Weights [C][taps] as [group][taps][line], the taps in reverse order where `turned`.
void arrange_weights(const Lines& lines, Index taps, bool turned, const float* w, float* to) {
  for (Index group = 0; group < lines.groups(); ++group) {
    for (Index tap = 0; tap < taps; ++tap, to += kLine) {
      const Index from = turned ? taps - 1 - tap : tap;
      for (Index lane = 0; lane < kLine; ++lane) {
        const Index channel = lines.channel(group, lane);
        to[lane] = channel < lines.channels ? w[channel * taps + from] : 0.0F;
      }
    }
  }
}

/// A group's bias as a line.
void arrange_bias(const Lines& lines, Index group, View b, float* line) {
  for (Index lane = 0; lane < kLine; ++lane) {
    const Index channel = lines.channel(group, lane);
    line[lane] = channel < lines.channels ? b[static_cast<std::size_t>(channel)] : 0.0F;
  }
}

}  // namespace

void CpuBackend::depthwise_correlate(const ConvolutionSpec& spec, bool backward, Index batch, View x, View w, View b,
                                     MutableView y) {
  const Lines lines{lanes(spec.in, batch), spec.channels};
  const PlaneCorrelation c = backward ? input_gradient_of(spec, lines) : forward_of(spec, lines);
  const Index taps = spec.kernel_height * spec.kernel_width, groups = lines.groups(), size = c.padded_floats();
  const Index weights = groups * taps * kLine;
  const auto arrange = [&](float* to) { arrange_weights(lines, taps, backward, w.data(), to); };
  float* const scratch = packed_.floats(weights);
  if (backward) arrange(scratch);
  const float* const arranged = backward ? scratch : prepared(w, weights, scratch, arrange);
  float* const padded = partials_.floats(settings_.threads * size);
  parallel_ranges(settings_.threads, lines.items() * groups, [&](Index first, Index end, int thread) {
    float* const plane = padded + thread * size;
    for (Index i = first; i < end; ++i) {
      const Index item = i / groups, group = i % groups;
      DepthwiseShape shape = c.shape;
      shape.lanes = lines.used(group);
      float bias[kLine];
      if (!b.empty()) arrange_bias(lines, group, b, bias);
      for_rows(c, [&](Index row, Index last) {
        pad_for(loops_, c, shape.lanes, row, last, x.data() + lines.begin(c.from, item, group), plane);
        loops_.depthwise.correlate(shape, last - row, plane, arranged + group * taps * kLine,
                                   b.empty() ? nullptr : bias,
                                   y.data() + lines.begin(c.to, item, group) + row * shape.row);
      });
    }
  });
}

// The items are summed in a few parts, whose number does not depend on the threads; each part takes some groups, which
// are neighbours in memory, of one item after the other.
void CpuBackend::depthwise_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw,
                                            Write write) {
  const Lines lines{lanes(spec.in, batch), spec.channels};
  const PlaneCorrelation c = forward_of(spec, lines);
  const Index taps = spec.kernel_height * spec.kernel_width, groups = lines.groups(), sum_floats = taps * kLine;
  const Index parts = std::clamp<Index>(lines.items(), 1, kMostParts);
  const Index blocks = (groups + kGroupsAtOnce - 1) / kGroupsAtOnce;
  const Index padded_floats = c.padded_floats(), size = padded_floats + c.rows_at_once() * c.to.width * kLine;
  float* const sums = partials_.floats(parts * groups * sum_floats);
  float* const memory = packed_.floats(settings_.threads * size);
  const auto add = [&](Index item, Index group, float* plane, float* sum) {
    float* const gradients = plane + padded_floats;
    const Index used = lines.used(group);
    const PaddedPlane of_dy{.rows = c.to.height,
                            .columns = c.to.width,
                            .row = c.shape.row,
                            .column = c.shape.column,
                            .lanes = used,
                            .width = c.to.width};
    for_rows(c, [&](Index row, Index last) {
      pad_for(loops_, c, used, row, last, x.data() + lines.begin(c.from, item, group), plane);
      loops_.depthwise.pad(of_dy, row, last, dy.data() + lines.begin(c.to, item, group), gradients);
      loops_.depthwise.gradient(c.shape, last - row, plane, gradients, sum);
    });
  };
  parallel_ranges(settings_.threads, parts * blocks, [&](Index first, Index end, int thread) {
    for (Index i = first; i < end; ++i) {
      const Index part = i / blocks, first_group = i % blocks * kGroupsAtOnce;
      const Index last_group = std::min(first_group + kGroupsAtOnce, groups);
      float* const sum = sums + part * groups * sum_floats;
      std::fill(sum + first_group * sum_floats, sum + last_group * sum_floats, 0.0F);
      const Index last_item = lines.items() * (part + 1) / parts;
      for (Index item = lines.items() * part / parts; item < last_item; ++item) {
        for (Index group = first_group; group < last_group; ++group) {
          add(item, group, memory + thread * size, sum + group * sum_floats);
        }
      }
    }
  });
  const bool channels = lines.are_channels();
  parallel_for(settings_.threads, spec.channels, [&](Index channel) {
    const Index group = channels ? channel / kLine : channel, first_lane = channels ? channel % kLine : 0;
    for (Index tap = 0; tap < taps; ++tap) {
      double total = 0;
      for (Index part = 0; part < parts; ++part) {
        const float* const sum = sums + (part * groups + group) * sum_floats + tap * kLine + first_lane;
        for (Index lane = 0; lane < (channels ? 1 : kLine); ++lane) total += static_cast<double>(sum[lane]);
      }
      float& to = dw[static_cast<std::size_t>(channel * taps + tap)];
      to = static_cast<float>(write == Write::add ? static_cast<double>(to) + total : total);
    }
  });
}

}  // namespace unisono::kernels::cpu
