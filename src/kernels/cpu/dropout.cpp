// Dropout, Srivastava et al., JMLR 15, 2014, with masks that depend on neither ranks nor threads.
//
//   element e of example n, e = (c H + y) W + x, is kept where u ≥ rate, with u the e-th value of
//       RandomStream(seed xor layer · 2³², Purpose::dropout, n, epoch).uniform()
//
// that is: words w₀ … w₃ = philox(stream_key(seed xor layer · 2³², dropout), {e div 4, epoch, n mod 2³², n div 2³²}),
// and e is zeroed where w_(e mod 4) div 2⁸ < ⌈2²⁴ rate⌉. Layers have different streams as long as seeds are below 2³².
#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "cpu/thread_team.hpp"
#include "unisono/base/random.hpp"

namespace unisono::kernels::cpu {

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
      .key = stream_key(key.seed ^ (std::uint64_t{key.layer} << 32), Purpose::dropout),
      .epoch = key.epoch,
      .threshold = static_cast<std::uint32_t>(std::ceil(std::ldexp(key.rate, 24))),
      .scale = 1.0F / (1.0F - key.rate),
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

}  // namespace unisono::kernels::cpu
