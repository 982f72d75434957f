#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "cpu/dropout.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {

void CpuBackend::activation_forward(const ActivationSpec& activation, const Extent& extent, Index batch, View x,
                                    MutableView y) {
  parallel_chunks(settings_.threads, activation_size(extent, batch), [&](Index first, Index length) {
    loops_.activation.forward(activation.kind, activation.number, x.data() + first, y.data() + first, length);
  });
}

void CpuBackend::activation_backward(const ActivationSpec& activation, const Extent& extent, Index batch, View x,
                                     View y, View dy, MutableView dx) {
  const float* const v = activation.reads_input() ? x.data() : y.data();  // none reads neither
  parallel_chunks(settings_.threads, activation_size(extent, batch), [&](Index first, Index length) {
    const float* const part = activation.kind == Activation::none ? nullptr : v + first;
    loops_.activation.backward(activation.kind, activation.number, part, dy.data() + first, dx.data() + first, length);
  });
}

void CpuBackend::add(const Extent& extent, Index batch, View x, MutableView y) {
  parallel_chunks(settings_.threads, activation_size(extent, batch), [&](Index first, Index length) {
    loops_.algebra.axpby(1.0F, x.data() + first, 1.0F, y.data() + first, length);
  });
}

namespace {

/// Calls work(first, length, i, j) for parts of rows of F units: from float `first` of a batch of F units, from i and j
/// of a batch of 2F on, which are values of the same units and of those F units after them.
template <typename Work>
void for_each_gate(int threads, Index units, Index batch, const Work& work) {
  const Lanes lanes(batch);
  const Index size = units * lanes.width, parts = chunks_of(size);
  parallel_for(threads, lanes.blocks * parts, [&](Index task) {
    const Index block = task / parts, first = task % parts * kChunk, in = block * 2 * size + first;
    work(block * size + first, std::min(kChunk, size - first), in, in + size);
  });
}

}  // namespace

void CpuBackend::gate_forward(Index units, Index batch, View x, MutableView y) {
  for_each_gate(settings_.threads, units, batch, [&](Index first, Index length, Index gate, Index value) {
    loops_.gate.forward(x.data() + gate, x.data() + value, y.data() + first, length);
  });
}

void CpuBackend::gate_backward(Index units, Index batch, View x, View dy, MutableView dx) {
  for_each_gate(settings_.threads, units, batch, [&](Index first, Index length, Index gate, Index value) {
    loops_.gate.backward(x.data() + gate, x.data() + value, dy.data() + first, dx.data() + gate, dx.data() + value,
                         length);
  });
}

// Dropout, Srivastava et al., JMLR 15, 2014, with masks that depend on neither ranks nor threads.
//
//   element e of example n, e = (c H + y) W + x, is kept where u ≥ rate, with u the e-th value of
//       RandomStream(seed xor layer · 2³², Purpose::dropout, n, epoch).uniform()
//
// that is: words w₀ … w₃ = philox(stream_key(seed xor layer · 2³², dropout), {e div 4, epoch, n mod 2³², n div 2³²}),
// and e is zeroed where w_(e mod 4) div 2⁸ < ⌈2²⁴ rate⌉. Layers have different streams as long as seeds are below 2³².

void CpuBackend::dropout(const DropoutKey& key, const Extent& extent, std::span<const std::uint64_t> examples, View x,
                         MutableView y) {
  assert(key.rate >= 0 && key.rate < 1);
  const auto batch = static_cast<Index>(examples.size());
  const Lanes lanes(batch);
  const View from = in_layout(Innermost::examples, extent, batch, x, x_copy_);
  const MutableView to = room_in_layout(Innermost::examples, extent, batch, y, y_copy_);
  std::vector<std::uint32_t> low(static_cast<std::size_t>(lanes.blocks * lanes.width)), high(low.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    low[i] = static_cast<std::uint32_t>(examples[i]);
    high[i] = static_cast<std::uint32_t>(examples[i] >> 32);
  }
  const Index pixels = extent.height * extent.width;
  const bool image = pixels > 1;  // else features count as pixels: what matters is which are neighbours
  const DropoutBlock first_block{
      .key = mask_key(key),
      .epoch = key.epoch,
      .first = key.first,
      .threshold = mask_threshold(key),
      .scale = mask_scale(key),
      .channels = image ? extent.channels : 1,
      .pixels = image ? pixels : extent.channels,
      .width = lanes.width,
  };
  constexpr Index kPixels = 16;  // so few pages at a time that they are prefetched
  const Index parts = (first_block.pixels + kPixels - 1) / kPixels;
  parallel_for(settings_.threads, lanes.blocks * parts, [&](Index i) {
    const Index number = i / parts, first = i % parts * kPixels, at = number * lanes.block_size(extent);
    DropoutBlock block = first_block;
    block.example_low = low.data() + number * lanes.width;
    block.example_high = high.data() + number * lanes.width;
    loops_of(lanes).dropout.apply(block, first, std::min(first + kPixels, block.pixels), from.data() + at,
                                  to.data() + at);
  });
  settle(Innermost::examples, extent, batch, to, y);
}

namespace {

constexpr Index kMostRowParts = 8;     ///< the rows are summed in at most so many parts
constexpr Index kMaskedChannels = 64;  ///< … and of so many channels

}  // namespace

/// dy ← dy ⊙ (y > 0) where y is not empty; db (+)= Σ dy over examples and positions where db is not empty.
void CpuBackend::mask_and_sum(const Extent& extent, Index batch, View y, MutableView dy, MutableView db, Write write) {
  if (y.empty() && db.empty()) return;
  const Lanes lanes = this->lanes(extent, batch);
  if (lanes.innermost() == Innermost::channels) return mask_and_sum_rows(extent, batch, y, dy, db, write);
  const Index channels = extent.channels, rows = lanes.blocks * extent.height, parts = std::min(rows, kMostRowParts);
  const Index slices = (channels + kMaskedChannels - 1) / kMaskedChannels;
  float* const sums = db.empty() ? nullptr : partials_.floats(parts * channels * Lanes::kVector);
  const Loops& loops = loops_of(lanes);
  parallel_for(settings_.threads, parts * slices, [&](Index task) {
    const Index part = task / slices, channel = task % slices * kMaskedChannels;
    const Index count = std::min(kMaskedChannels, channels - channel);
    float* const sum = sums == nullptr ? nullptr : sums + (part * channels + channel) * Lanes::kVector;
    if (sum != nullptr) std::fill(sum, sum + count * Lanes::kVector, 0.0F);
    for (Index i = rows * part / parts * extent.width; i < rows * (part + 1) / parts * extent.width; ++i) {
      const Index at = (i * channels + channel) * lanes.width;
      loops.mask_and_sum(count, lanes.width, y.empty() ? nullptr : y.data() + at, dy.data() + at, sum);
    }
  });
  add_up_bias(sums, parts, Lanes::kVector, db, write);
}

/// The same, with the channels innermost.
void CpuBackend::mask_and_sum_rows(const Extent& extent, Index batch, View y, MutableView dy, MutableView db,
                                   Write write) {
  const Index channels = extent.channels, rows = batch * extent.height * extent.width,
              parts = std::min(rows, kMostRowParts);
  float* const sums = db.empty() ? nullptr : partials_.floats(parts * channels);
  parallel_for(settings_.threads, parts, [&](Index part) {
    float* const sum = sums == nullptr ? nullptr : sums + part * channels;
    if (sum != nullptr) std::fill_n(sum, channels, 0.0F);
    const Index first = rows * part / parts, last = rows * (part + 1) / parts, at = first * channels;
    loops_.mask_and_sum_rows(last - first, channels, y.empty() ? nullptr : y.data() + at, dy.data() + at, sum);
  });
  add_up_bias(sums, parts, 1, db, write);
}

/// db (+)= Σ over parts and lanes of sums [parts][channels][lanes].
void CpuBackend::add_up_bias(const float* sums, Index parts, Index lanes, MutableView db, Write write) {
  const auto channels = static_cast<Index>(db.size());
  for (std::size_t c = 0; c < db.size(); ++c) {
    float total = write == Write::add ? db[c] : 0.0F;
    for (Index part = 0; part < parts; ++part) {
      const float* const sum = sums + (part * channels + static_cast<Index>(c)) * lanes;
      for (Index lane = 0; lane < lanes; ++lane) total += sum[lane];
    }
    db[c] = total;
  }
}

}  // namespace unisono::kernels::cpu
