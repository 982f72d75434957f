// Convolutions of activations with the channels innermost, [example][y][x][channel]. Neighbouring positions of a row of
// the output are the columns of one matrix product, [channels out × channels in] · [channels in × positions], which is
// summed over the kernel's taps. Borders, strides and dilation decide which taps a position has: positions with the
// same ones form a run. The sums are those of examples_convolution.cpp, in the same order.
#include <algorithm>
#include <vector>

#include "cpu/convolution.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kChannelsAtOnce = 64;  ///< of a product's result: four registers
/// 512 KiB of x and dy are summed into dw at a time, or as much as dw has itself: so often dw is read and written.
constexpr Index kFloatsAtOnce = Index{1} << 17;

constexpr Index kPositionsOfRow = 24;  ///< at least, of pixels without neighbours: enough to fill the products' tiles

/// A batch of images, and a convolution of them.
struct Images {
  ConvolutionSpec spec;
  Index batch;
};

/// Where pixels do not meet their neighbours, rows may be of any pixels that lie one after another: short rows are
/// joined, also over images, unless fewer than `least` would be left.
Images with_long_rows(const ConvolutionSpec& spec, Index batch, Index least) {
  const bool alone = spec.kernel_height == 1 && spec.kernel_width == 1 && spec.stride_height == 1 &&
                     spec.stride_width == 1 && spec.padding_height == 0 && spec.padding_width == 0;
  const Index rows = batch * spec.in.height;
  if (!alone || rows == 0) return {spec, batch};
  Index joined = 1;  // rows
  while (joined < rows && (joined * spec.in.width < kPositionsOfRow || rows % joined != 0)) ++joined;
  if (rows / joined < least) return {spec, batch};
  Images images{spec, rows / joined};
  images.spec.in = {spec.in.channels, 1, joined * spec.in.width};
  return images;
}

/// Neighbouring positions of a row (or column) to which the same elements of the kernel contribute: first, first +
/// step, …; the positions of the other side advance with them.
struct Run {
  Index first, count;
  std::vector<Tap> taps;  ///< of the first position
};

bool same_elements(const std::vector<Tap>& a, const std::vector<Tap>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tap& left, const Tap& right) { return left.element == right.element; });
}

/// The runs of an axis, of positions that are `step` apart.
std::vector<Run> runs_of(const std::vector<std::vector<Tap>>& taps, Index step) {
  const auto size = static_cast<Index>(taps.size());
  std::vector<Run> runs;
  for (Index residue = 0; residue < std::min(step, size); ++residue) {
    for (Index position = residue; position < size; position += step) {
      const auto& here = taps[static_cast<std::size_t>(position)];
      if (position > residue && same_elements(runs.back().taps, here)) {
        ++runs.back().count;
      } else {
        runs.push_back({position, 1, here});
      }
    }
  }
  return runs;
}

/// The positions that an element of the kernel reaches: first, first + step, …
struct Reach {
  Index element, first, from, count;  ///< `from`: the position of the other side that belongs to the first
};

/// The reaches of the elements, in the order in which the positions' sums have them.
std::vector<Reach> reaches_of(const std::vector<std::vector<Tap>>& taps, const std::vector<Index>& order, Index step) {
  const auto size = static_cast<Index>(taps.size());
  std::vector<Reach> reaches;
  for (const Index element : order) {
    Reach reach{element, 0, 0, 0};
    for (Index position = 0; position < size; ++position) {
      for (const Tap& tap : taps[static_cast<std::size_t>(position)]) {
        if (tap.element != element) continue;
        if (reach.count == 0) reach = {element, position, tap.position, 0};
        reach.count = (position - reach.first) / step + 1;
      }
    }
    if (reach.count > 0) reaches.push_back(reach);
  }
  return reaches;
}

/// Whether most positions are in runs so short that a product waits for its additions, while the products of single
/// taps are long enough to pay for reading and writing the sums.
bool taps_are_faster(const std::vector<Run>& runs, Index channels, Index terms) {
  constexpr Index kSums = 8;  // registers that hide the latency
  const Index registers = std::min<Index>(4, Lanes::round_up(channels) / Lanes::kVector);
  Index cost = 0, positions = 0;
  for (const Run& run : runs) {
    cost += std::max(run.count * registers, kSums);
    positions += run.count * registers;
  }
  return terms >= Lanes::kVector && 2 * cost > 3 * positions;
}

/// One side of a convolution: rows and columns of pixels, and channels.
struct Side {
  Index height, width, channels;
  explicit Side(const Extent& extent) : height(extent.height), width(extent.width), channels(extent.channels) {}
  Index at(Index example, Index y, Index x) const { return ((example * height + y) * width + x) * channels; }
};

/// to[position] = Σ over taps of W_tap · from[position of the tap]: a forward pass, or a gradient of inputs.
struct Correlation {
  Side from, to;
  std::vector<std::vector<Tap>> rows;  ///< the taps of each row of `to`
  std::vector<Run> columns;
  std::vector<Reach> reaches;  ///< of the columns; empty where runs are faster
  Index step, from_step;       ///< of the positions of a run, in `to` and in `from`
  Index kernel_height, kernel_width;
  Index groups;  ///< of channels
  bool joined;   ///< whether the taps of a row are contiguous in `from`, as they are in W

  /// Channels of a group.
  Index group_of_from() const { return from.channels / groups; }
  Index group_of_to() const { return to.channels / groups; }
  /// Blocks of kChannelsAtOnce channels of a group of `to`.
  Index blocks() const { return (group_of_to() + kChannelsAtOnce - 1) / kChannelsAtOnce; }
  Index block_width(Index block) const { return std::min(kChannelsAtOnce, group_of_to() - block * kChannelsAtOnce); }
  /// Offset of a block of a group in the weights, which are packed [groups][blocks][KH][KW][from][block's width]: what
  /// a product reads is contiguous, and stays in a cache.
  Index weights_at(Index group, Index block) const {
    return (group * group_of_to() + block * kChannelsAtOnce) * kernel_height * kernel_width * group_of_from();
  }
};

/// Calls pack(group, block, tap, where to) for all parts of the packed weights.
template <typename Pack>
void pack_weights(int threads, const Correlation& c, float* to, const Pack& pack) {
  const Index taps = c.kernel_height * c.kernel_width;
  parallel_for(threads, c.groups * c.blocks() * taps, [&](Index i) {
    const Index group = i / taps / c.blocks(), block = i / taps % c.blocks(), tap = i % taps;
    pack(group, block, tap, to + c.weights_at(group, block) + tap * c.group_of_from() * c.block_width(block));
  });
}

/// A row of `to`, as seen by the functions below.
struct OutputRow {
  Index example, row, channel;  ///< the channels from `channel` on
  const float *from, *w, *bias;
  float* to;
};

/// Run by run: each position is summed at once.
void correlate_runs(const Loops& loops, const Correlation& c, const OutputRow& row, ProductShape shape, Pairs& pairs) {
  for (const Run& run : c.columns) {
    const std::size_t together = c.joined ? std::max<std::size_t>(1, run.taps.size()) : 1;
    pairs.clear();
    for (const Tap& y : c.rows[static_cast<std::size_t>(row.row)]) {
      for (std::size_t x = 0; x < run.taps.size(); x += together) {
        pairs.add(row.w + (y.element * c.kernel_width + run.taps[x].element) * c.group_of_from() * shape.m,
                  row.from + c.from.at(row.example, y.position, run.taps[x].position));
      }
    }
    shape.n = run.count;
    shape.k = static_cast<Index>(together) * c.group_of_from();
    loops.product(shape, pairs.a.data(), pairs.b.data(), pairs.count(), row.bias,
                  row.to + c.to.at(row.example, row.row, run.first) + row.channel, nullptr);
  }
}

/// Tap by tap: the positions that a tap reaches are many, even where those with the same taps are few.
void correlate_taps(const Loops& loops, const Correlation& c, const OutputRow& row, ProductShape shape) {
  for (Index x = 0; x < c.to.width; ++x) {
    std::fill_n(row.to + c.to.at(row.example, row.row, x) + row.channel, shape.m, 0.0F);
  }
  shape.accumulate = true;
  shape.k = c.group_of_from();
  for (const Tap& y : c.rows[static_cast<std::size_t>(row.row)]) {
    for (const Reach& reach : c.reaches) {
      const float* const a = row.w + (y.element * c.kernel_width + reach.element) * shape.k * shape.m;
      const float* const b = row.from + c.from.at(row.example, y.position, reach.from);
      shape.n = reach.count;
      loops.product(shape, &a, &b, 1, nullptr, row.to + c.to.at(row.example, row.row, reach.first) + row.channel,
                    nullptr);
    }
  }
}

void correlate(const Loops& loops, int threads, const Correlation& c, Index batch, const float* from, const float* w,
               const float* bias, bool relu, float* to) {
  std::size_t most = 0, widest = 0;
  for (const auto& row : c.rows) most = std::max(most, row.size());
  for (const Run& run : c.columns) widest = std::max(widest, run.taps.size());
  parallel_ranges(threads, batch * c.to.height, [&](Index first, Index end, int) {
    Pairs pairs(static_cast<Index>(most * widest));
    for (Index number = 0; number < c.groups * c.blocks(); ++number) {
      const Index group = number / c.blocks(), block = number % c.blocks();
      const Index channel = group * c.group_of_to() + block * kChannelsAtOnce;
      const ProductShape shape{.m = c.block_width(block),
                               .lda = c.block_width(block),
                               .ldb = c.from_step * c.from.channels,
                               .ldc = c.step * c.to.channels,
                               .relu = relu,
                               .bias_of_rows = true};
      for (Index i = first; i < end; ++i) {
        const OutputRow row{i / c.to.height,
                            i % c.to.height,
                            channel,
                            from + group * c.group_of_from(),
                            w + c.weights_at(group, block),
                            bias == nullptr ? nullptr : bias + channel,
                            to};
        if (c.reaches.empty()) {
          correlate_runs(loops, c, row, shape, pairs);
        } else {
          correlate_taps(loops, c, row, shape);
        }
      }
    }
  });
}

constexpr Index kMostWeightParts = 8;          ///< at most
constexpr Index kPartFloats = Index{1} << 18;  ///< of all parts, if there are more than two

/// Rows of the output are summed in a few parts, as in examples_convolution.cpp.
Index parts_of(Index weights, Index rows) {
  return std::min(std::max<Index>(1, rows), std::clamp<Index>(kPartFloats / weights, 2, kMostWeightParts));
}

/// Some of a convolution's weights: of channels `out` of a group, and of row `ky` of the kernel.
struct WeightRow {
  Index group, ky;
  Range out;
};

/// sum [O][taps][I / groups] += what `rows` of all examples' outputs contribute to some weights.
void add_rows(const Loops& loops, const Convolution& c, const WeightRow& weights, const std::vector<Run>& columns,
              View x, View dy, Range rows, Pairs& pairs, float* sum) {
  const Side in({c.groups * c.in, c.y.in, c.x.in}), out({c.groups * c.out, c.y.out, c.x.out});
  const Index channel = weights.group * c.out + weights.out.first;
  for (const Run& run : columns) {
    const std::size_t together = c.runs ? run.taps.size() : 1;
    for (std::size_t tap = 0; tap < run.taps.size(); tap += together) {
      pairs.clear();
      for (Index i = rows.first; i < rows.end; ++i) {
        const Index example = i / c.y.out, oy = i % c.y.out;
        const Range elements = c.y.elements(oy);
        if (weights.ky < elements.first || weights.ky >= elements.end) continue;
        pairs.add(x.data() + in.at(example, c.y.input(oy, weights.ky), run.taps[tap].position) + weights.group * c.in,
                  dy.data() + out.at(example, oy, run.first) + channel);
      }
      if (pairs.count() == 0) continue;
      const ProductShape shape{.m = static_cast<Index>(together) * c.in,
                               .n = weights.out.size(),
                               .k = run.count,
                               .lda = c.x.stride * in.channels,
                               .ldb = out.channels,
                               .ldc = c.taps() * c.in,
                               .transposed = true,
                               .accumulate = true};
      loops.product(shape, pairs.a.data(), pairs.b.data(), pairs.count(), nullptr,
                    sum + c.weight_at(channel, weights.ky, run.taps[tap].element), nullptr);
    }
  }
}

constexpr Index kFewFloats = Index{1} << 16;  ///< 256 KiB of x and dy, which stay in the second-level cache

/// Where x and dy stay in a cache: the weights are divided among the threads, and each is summed at once.
void few_backward_weights(const Loops& loops, int threads, const Convolution& c, const std::vector<Run>& columns,
                          View x, View dy, Index rows, MutableView dw, Write write) {
  const Index slices = std::min((c.out + kTileColumns - 1) / kTileColumns, (2 * threads + c.y.kernel - 1) / c.y.kernel);
  parallel_ranges(threads, c.groups * c.y.kernel * slices, [&](Index first, Index end, int) {
    Pairs pairs(rows);
    for (Index i = first; i < end; ++i) {
      const Index slice = i % slices;
      const WeightRow weights{
          i / slices / c.y.kernel, i / slices % c.y.kernel, {c.out * slice / slices, c.out * (slice + 1) / slices}};
      for (Index o = weights.out.first; write == Write::overwrite && o < weights.out.end; ++o) {
        std::fill_n(dw.data() + c.weight_at(weights.group * c.out + o, weights.ky, 0), c.x.kernel * c.in, 0.0F);
      }
      add_rows(loops, c, weights, columns, x, dy, {0, rows}, pairs, dw.data());
    }
  });
}

}  // namespace

void CpuBackend::channels_forward(const ConvolutionSpec& own, Index own_batch, View x, View w, View b, MutableView y) {
  const auto [spec, batch] = with_long_rows(own, own_batch, settings_.threads);
  const Convolution c(spec, Lanes::channels_innermost(batch));
  const Correlation correlation{.from = Side(spec.in),
                                .to = Side(spec.out()),
                                .rows = taps_of_outputs(c.y),
                                .columns = runs_of(taps_of_outputs(c.x), 1),
                                .reaches = {},
                                .step = 1,
                                .from_step = c.x.stride,
                                .kernel_height = c.y.kernel,
                                .kernel_width = c.x.kernel,
                                .groups = c.groups,
                                .joined = c.runs};
  const float* const packed = prepared(w, c.weights(), packed_.floats(c.weights()), [&](float* to) {
    pack_weights(settings_.threads, correlation, to, [&](Index group, Index block, Index tap, float* part) {
      const Index width = correlation.block_width(block), channel = group * c.out + block * kChannelsAtOnce;
      loops_.transpose(width, c.in, w.data() + (channel * c.taps() + tap) * c.in, c.taps() * c.in, part, width);
    });
  });
  correlate(loops_, settings_.threads, correlation, batch, x.data(), packed, b.empty() ? nullptr : b.data(),
            spec.activation == Activation::relu, y.data());
}

void CpuBackend::channels_backward_data(const ConvolutionSpec& own, Index own_batch, View w, View dy, MutableView dx) {
  const auto [spec, batch] = with_long_rows(own, own_batch, settings_.threads);
  const Convolution c(spec, Lanes::channels_innermost(batch));
  const std::vector<std::vector<Tap>> taps = taps_of_inputs(c.x);
  const std::vector<Run> runs = runs_of(taps, c.x.stride);
  const bool by_taps = taps_are_faster(runs, c.in, c.out);
  const Correlation correlation{
      .from = Side(spec.out()),
      .to = Side(spec.in),
      .rows = taps_of_inputs(c.y),
      .columns = runs,
      .reaches = by_taps ? reaches_of(taps, element_order(c.x), c.x.stride) : std::vector<Reach>{},
      .step = c.x.stride,
      .from_step = 1,
      .kernel_height = c.y.kernel,
      .kernel_width = c.x.kernel,
      .groups = c.groups,
      .joined = false};
  float* const packed = packed_.floats(c.weights());
  pack_weights(settings_.threads, correlation, packed, [&](Index group, Index block, Index tap, float* part) {
    const Index width = correlation.block_width(block);
    const float* from = w.data() + (group * c.out * c.taps() + tap) * c.in + block * kChannelsAtOnce;
    for (Index o = 0; o < c.out; ++o) std::copy_n(from + o * c.taps() * c.in, width, part + o * width);
  });
  correlate(loops_, settings_.threads, correlation, batch, dy.data(), packed, nullptr, false, dx.data());
}

void CpuBackend::channels_backward_weights(const ConvolutionSpec& own, Index own_batch, View x, View dy, MutableView dw,
                                           Write write) {
  const auto [spec, batch] = with_long_rows(own, own_batch, 1);
  const Convolution c(spec, Lanes::channels_innermost(batch));
  const std::vector<Run> columns = runs_of(taps_of_outputs(c.x), 1);
  const Index size = c.weights(), rows = batch * c.y.out, parts = parts_of(size, rows);
  if (batch * (spec.in.size() + spec.out().size()) <= kFewFloats) {
    return few_backward_weights(loops_, settings_.threads, c, columns, x, dy, rows, dw, write);
  }
  const Index row_floats = c.x.out * c.groups * (c.out + c.x.stride * c.in);
  const Index at_once = std::max<Index>(1, std::max(kFloatsAtOnce, size) / row_floats);
  const Index slices = std::min(c.out, (settings_.threads + parts - 1) / parts);  // where there are too few parts
  float* const sums = partials_.floats(parts * size);
  parallel_ranges(settings_.threads, parts * slices, [&](Index first_share, Index end_share, int) {
    Pairs pairs(at_once);
    for (Index share = first_share; share < end_share; ++share) {
      const Index part = share / slices, slice = share % slices;
      const Range channels{c.out * slice / slices, c.out * (slice + 1) / slices};
      float* const sum = sums + part * size;
      for (Index group = 0; group < c.groups; ++group) {
        std::fill_n(sum + c.weight_at(group * c.out + channels.first, 0, 0), channels.size() * c.taps() * c.in, 0.0F);
      }
      const Index end = rows * (part + 1) / parts;
      for (Index row = rows * part / parts; row < end; row += at_once) {
        for (Index i = 0; i < c.groups * c.y.kernel; ++i) {
          add_rows(loops_, c, {i / c.y.kernel, i % c.y.kernel, channels}, columns, x, dy,
                   {row, std::min(row + at_once, end)}, pairs, sum);
        }
      }
    }
  });
  parallel_chunks(settings_.threads, size, [&](Index first, Index length) {
    for (Index part = 0; part < parts; ++part) {
      const float old = part > 0 || write == Write::add ? 1.0F : 0.0F;
      loops_.algebra.axpby(1, sums + part * size + first, old, dw.data() + first, length);
    }
  });
}

}  // namespace unisono::kernels::cpu
