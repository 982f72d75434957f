#include <algorithm>

#include "cpu/cpu_backend.hpp"
#include "cpu/thread_team.hpp"

namespace unisono::kernels::cpu {
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
