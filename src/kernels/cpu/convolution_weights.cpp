// The gradient of a convolution's weights: for each tap, dW (O × I) = Σ dy (O × lanes) x (I × lanes)ᵀ over all
// positions that it reaches. Where it pays, some positions of dy are transposed and the sum over lanes and positions is
// a product whose M is O; else it is taken along the lanes. Rows of the output are split into a few parts, whose sums
// are added up at the end, so that threads have independent work and results do not depend on their number.
#include <cmath>

#include "cpu/chunks.hpp"
#include "cpu/convolution.hpp"
#include "cpu/cpu_backend.hpp"

namespace unisono::cpu {
namespace {

constexpr Index kParts = 8;                          ///< at most
constexpr Index kPartFloats = Index{1} << 20;        ///< of all parts together, where they are more than one
constexpr Index kChannelsAtOnce = 64;                ///< of the output: four registers
constexpr Index kTransposedFloats = Index{1} << 13;  ///< 32 KiB of dy, transposed at a time

Index round_up(Index n) { return (n + Lanes::kVector - 1) / Lanes::kVector * Lanes::kVector; }

/// Neighbouring positions of a row of the output that the same elements of a row of the kernel reach.
struct Stretch {
  Range positions, elements;
};

std::vector<Stretch> stretches(const Convolution& convolution) {
  std::vector<Stretch> found;
  const Axis& axis = convolution.x;
  const auto extend = [&found](Index position, Range elements) {
    if (elements.size() == 0) return;
    if (!found.empty() && found.back().elements == elements && found.back().positions.end == position) {
      ++found.back().positions.end;
    } else {
      found.push_back({{position, position + 1}, elements});
    }
  };
  if (convolution.runs) {
    for (Index position = 0; position < axis.out; ++position) extend(position, axis.elements(position));
  } else {
    for (Index element = 0; element < axis.kernel; ++element) {
      for (Index position = 0; position < axis.out; ++position) {
        const Range elements = axis.elements(position);
        if (element >= elements.first && element < elements.end) extend(position, {element, element + 1});
      }
    }
  }
  return found;
}

/// Whether sums along the lanes beat transposing. In multiply-adds of a register, a row of taps: a product of M = O
/// fills whole registers, needs some 8 sums to hide their latency, and 64 shuffles for 16 × 16 values transposed; sums
/// along the lanes waste nothing but run at some 60 % of its speed.
bool along_lanes(const Convolution& convolution) {
  const Index registers = round_up(convolution.out) / Lanes::kVector;
  const Index columns = (convolution.runs ? convolution.x.kernel : 1) * convolution.in;
  const Index rows = convolution.y.kernel * (convolution.runs ? 1 : convolution.x.kernel);
  const double product = static_cast<double>(Lanes::kVector * std::max<Index>(registers * columns, 8)) +
                         2.0 * 64 * static_cast<double>(registers) / static_cast<double>(rows);
  return static_cast<double>(convolution.out * columns) / 0.6 < product;
}

/// One call's gradient of the weights.
class WeightGradient {
 public:
  WeightGradient(const Convolution& convolution, const Loops& loops, View x, View dy)
      : convolution_(convolution), loops_(loops), x_(x), dy_(dy), stretches_(stretches(convolution)) {}

  Index rows() const { return convolution_.lanes.blocks * convolution_.y.out; }

  /// sum [groups][O][taps][I] += what rows of the output contribute.
  void add_along_lanes(Range rows, float* sum) const {
    Pairs pairs(convolution_.x.out);
    for_each_row(rows, [&](Index block, Index oy) {
      for (Index group = 0; group < convolution_.groups; ++group) {
        add_row_along_lanes(block, oy, group, pairs, sum + group * group_size());
      }
    });
  }

  /// sum [groups][taps][I][O] += what rows of the output contribute, for some channels of each group.
  /// \param transposed room for kTransposedFloats or one position
  void add_products(Range rows, Range channels, float* transposed, float* sum) const {
    Pairs pairs(convolution_.x.out);
    const Index step = positions_at_once(channels);
    for_each_row(rows, [&](Index block, Index oy) {
      for (Index group = 0; group < convolution_.groups; ++group) {
        for (Index first = 0; first < convolution_.x.out; first += step) {
          const Range positions{first, std::min(first + step, convolution_.x.out)};
          transpose(block, oy, group, positions, channels, transposed);
          add_positions(block, oy, group, positions, channels, transposed, pairs, sum + group * group_size());
        }
      }
    });
  }

  Index transposed_size(Range channels) const {
    return positions_at_once(channels) * convolution_.lanes.width * round_up(channels.size());
  }

 private:
  Index group_size() const { return convolution_.out * convolution_.taps() * convolution_.in; }
  Index positions_at_once(Range channels) const {
    return std::max<Index>(1, kTransposedFloats / (convolution_.lanes.width * round_up(channels.size())));
  }

  template <typename Work>
  void for_each_row(Range rows, const Work& work) const {
    for (Index row = rows.first; row < rows.end; ++row) work(row / convolution_.y.out, row % convolution_.y.out);
  }

  const float* x_at(Index block, Index oy, Index ky, Index ox, Index kx, Index group) const {
    const Index at = convolution_.input_at(block, convolution_.y.input(oy, ky), convolution_.x.input(ox, kx));
    return x_.data() + at + group * convolution_.in * convolution_.lanes.width;
  }
  const float* dy_at(Index block, Index oy, Index ox, Index channel) const {
    return dy_.data() + convolution_.output_at(block, oy, ox) + channel * convolution_.lanes.width;
  }

  void add_row_along_lanes(Index block, Index oy, Index group, Pairs& pairs, float* sum) const {
    const Range elements = convolution_.y.elements(oy);
    for (Index ky = elements.first; ky < elements.end; ++ky) {
      for (const Stretch& stretch : stretches_) {
        pairs.clear();
        for (Index ox = stretch.positions.first; ox < stretch.positions.end; ++ox) {
          pairs.add(dy_at(block, oy, ox, group * convolution_.out),
                    x_at(block, oy, ky, ox, stretch.elements.first, group));
        }
        const DotShape shape{.m = convolution_.out,
                             .n = stretch.elements.size() * convolution_.in,
                             .width = convolution_.lanes.width,
                             .ldc = convolution_.taps() * convolution_.in};
        loops_.dots(shape, pairs.a.data(), pairs.b.data(), pairs.count(),
                    sum + convolution_.weight_at(0, ky, stretch.elements.first));
      }
    }
  }

  /// transposed [position][lane][channel] = dy
  void transpose(Index block, Index oy, Index group, Range positions, Range channels, float* transposed) const {
    const Index width = convolution_.lanes.width, stride = round_up(channels.size());
    for (Index ox = positions.first; ox < positions.end; ++ox) {
      loops_.transpose(channels.size(), width, dy_at(block, oy, ox, group * convolution_.out + channels.first), width,
                       transposed + (ox - positions.first) * width * stride, stride);
    }
  }

  void add_positions(Index block, Index oy, Index group, Range positions, Range channels, const float* transposed,
                     Pairs& pairs, float* sum) const {
    const Index width = convolution_.lanes.width, stride = round_up(channels.size());
    const Range elements = convolution_.y.elements(oy);
    for (Index ky = elements.first; ky < elements.end; ++ky) {
      for (const Stretch& stretch : stretches_) {
        pairs.clear();
        const Index end = std::min(stretch.positions.end, positions.end);
        for (Index ox = std::max(stretch.positions.first, positions.first); ox < end; ++ox) {
          pairs.add(transposed + (ox - positions.first) * width * stride,
                    x_at(block, oy, ky, ox, stretch.elements.first, group));
        }
        if (pairs.count() == 0) continue;
        const ProductShape shape{.m = channels.size(),
                                 .n = stretch.elements.size() * convolution_.in,
                                 .k = width,
                                 .lda = stride,
                                 .ldb = width,
                                 .ldc = convolution_.out,
                                 .accumulate = true};
        loops_.product(shape, pairs.a.data(), pairs.b.data(), pairs.count(), nullptr,
                       sum + convolution_.weight_at(0, ky, stretch.elements.first) * convolution_.out + channels.first);
      }
    }
  }

  const Convolution& convolution_;
  const Loops& loops_;
  View x_, dy_;
  std::vector<Stretch> stretches_;
};

}  // namespace

void CpuBackend::convolution_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw,
                                              Write write) {
  const Convolution convolution(spec, batch);
  const WeightGradient gradient(convolution, loops_, x, dy);
  const bool lanes = along_lanes(convolution);
  const Index size = convolution.weights(), rows = gradient.rows();
  const Index parts = std::min(rows, std::clamp<Index>(kPartFloats / size, 1, kParts));
  const Index slices = lanes ? 1 : (convolution.out + kChannelsAtOnce - 1) / kChannelsAtOnce;
  const Index room = gradient.transposed_size({0, std::min(convolution.out, kChannelsAtOnce)});
  float* const sums = partials_.floats((parts + 1) * size);  // and one for the sum in the order of dw
  float* const transposed = packed_.floats(settings_.threads * room);

  parallel_ranges(settings_.threads, parts * slices, [&](Index first, Index end, int thread) {
    for (Index task = first; task < end; ++task) {
      const Index part = task / slices, slice = task % slices;
      const Range share{rows * part / parts, rows * (part + 1) / parts};
      float* const sum = sums + part * size;
      if (lanes) {
        std::fill(sum, sum + size, 0.0F);
        gradient.add_along_lanes(share, sum);
      } else {
        const Range channels{convolution.out * slice / slices, convolution.out * (slice + 1) / slices};
        for (Index i = 0; i < size; i += convolution.out) {
          std::fill(sum + i + channels.first, sum + i + channels.end, 0.0F);
        }
        gradient.add_products(share, channels, transposed + thread * room, sum);
      }
    }
  });
  parallel_chunks(settings_.threads, size, [&](Index first, Index length) {
    for (Index part = 1; part < parts; ++part) {
      loops_.algebra.axpby(1, sums + part * size + first, 1, sums + first, length);
    }
  });
  const float* total = sums;
  if (!lanes) {
    const Index of_group = size / convolution.groups;
    for (Index group = 0; group < convolution.groups; ++group) {
      loops_.transpose(of_group / convolution.out, convolution.out, sums + group * of_group, convolution.out,
                       sums + parts * size + group * of_group, of_group / convolution.out);
    }
    total = sums + parts * size;
  }
  axpby(1, {total, dw.size()}, write == Write::add ? 1.0F : 0.0F, dw);
}

}  // namespace unisono::cpu
