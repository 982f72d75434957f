#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/lanes.hpp"
#include "cpu/loops.hpp"
#include "unisono/kernels/sequence_kernels.hpp"

// What both passes of attention share: where a head's values lie, and sums of products over blocks.

namespace unisono::kernels::cpu::attention {

inline constexpr Index kRows = kMaximumLanes;    ///< of a block of queries or keys
inline constexpr Index kTile = kRows * kRows;    ///< scores of two blocks
inline constexpr Index kRun = 4;                 ///< blocks at a time: 64 KiB of scores
inline constexpr Index kGroup = Lanes::kVector;  ///< queries or keys that share a border on the diagonal
inline constexpr double kLog2E = 1.4426950408889634;

/// The rows of one sequence among those of a batch, in blocks of kRows from its first row on.
class SequenceRows {
 public:
  SequenceRows(const Lanes& lanes, Index sequence, Index rows) : lanes_(lanes), first_(sequence * rows), rows_(rows) {}

  Index size(Index block) const { return std::min(kRows, rows_ - block * kRows); }
  /// Whether its blocks are those of the activations.
  bool aligned() const { return lanes_.width == kRows && first_ % kRows == 0; }
  /// The place of a feature of its first row. \pre aligned()
  Index at(Index features, Index feature) const { return (first_ / kRows * features + feature) * kRows; }

  /// Calls work(panel_lane, activation, count) for each part of a block that lies in one block of the activations: its
  /// first lane in a panel, its first float among activations of so many features, and its rows.
  template <typename Work>
  void for_each_part(Index block, Index features, Index feature, const Work& work) const {
    for (Index done = 0; done < size(block);) {
      const Index row = first_ + block * kRows + done, lane = row % lanes_.width;
      const Index count = std::min(size(block) - done, lanes_.width - lane);
      work(done, (row / lanes_.width * features + feature) * lanes_.width + lane, count);
      done += count;
    }
  }
  Index width() const { return lanes_.width; }

 private:
  Lanes lanes_;
  Index first_, rows_;
};

/// The panels of a head's blocks.
struct Panels {
  const float* first;
  Index stride;
  const float* operator[](Index block) const { return first + block * stride; }
};

/// What a pass over all sequences shares.
struct Pass {
  const Loops& loops;
  const AttentionSpec& spec;
  Lanes lanes;
  const float* rotary;             ///< [block][D/2][2][kRows], or null
  std::span<const MaskKey> masks;  ///< one for each sequence, or none

  Index blocks() const { return (spec.rows + kRows - 1) / kRows; }
  Index panel() const { return spec.width * kRows; }
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(spec.width))); }
  float factor() const { return static_cast<float>(kLog2E / std::sqrt(static_cast<double>(spec.width))); }
  /// The first feature of head h's queries, and of key head g's keys and values.
  Index query(Index h) const { return h * spec.width; }
  Index key(Index g) const { return (spec.heads + g) * spec.width; }
  Index value(Index g) const { return (spec.heads + spec.key_heads + g) * spec.width; }
  /// Turns queries or keys by their rows' angles; back, with sign −1.
  void turn(Index block, float sign, float* panel) const {
    const Index half = spec.width / 2;
    loops.attention.rotate(half, rotary + block * half * 2 * kRows, sign, panel);
  }
};

/// Some features of the rows of a sequence in activations.
template <typename Float>
struct Features {
  std::span<Float> activations;
  Index all;           ///< features of a row
  Index first, count;  ///< those that are meant
};

inline void read_panel(const Pass& pass, const SequenceRows& rows, const Features<const float>& from, Index block,
                       float* to) {
  rows.for_each_part(block, from.all, from.first, [&](Index lane, Index at, Index count) {
    pass.loops.attention.copy(from.count, count, from.activations.data() + at, rows.width(), to + lane, kRows);
  });
}

inline void write_panel(const Pass& pass, const SequenceRows& rows, const Features<float>& to, Index block,
                        const float* from) {
  rows.for_each_part(block, to.all, to.first, [&](Index lane, Index at, Index count) {
    pass.loops.attention.copy(to.count, count, from + lane, kRows, to.activations.data() + at, rows.width());
  });
}

/// Whether panels can be written in the activations themselves: if no lane of theirs belongs to another sequence.
inline bool in_place(const Pass& pass, const SequenceRows& rows, bool turned) {
  return rows.aligned() && pass.spec.rows % kRows == 0 && !(turned && pass.rotary != nullptr);
}

/// Where a panel of results is computed: in place, or in `room`.
inline float* result_panel(const Pass& pass, const SequenceRows& rows, const Features<float>& to, bool turned,
                           Index block, float* room) {
  if (!in_place(pass, rows, turned)) return room;
  return to.activations.data() + rows.at(to.all, to.first) + block * to.all * kRows;
}

/// Turns a panel back, and writes it, where it was not computed in place.
inline void finish_panel(const Pass& pass, const SequenceRows& rows, const Features<float>& to, bool turned,
                         Index block, float* panel) {
  if (in_place(pass, rows, turned)) return;
  if (turned && pass.rotary != nullptr) pass.turn(block, -1, panel);
  write_panel(pass, rows, to, block, panel);
}

/// A panel: in the activations themselves, or copied to `room`, where it is turned.
inline const float* panel_of(const Pass& pass, const SequenceRows& rows, const Features<const float>& from, bool turned,
                             Index block, float* room) {
  const bool turns = turned && pass.rotary != nullptr;
  const float* const x = from.activations.data();
  if (rows.aligned() && !turns) return x + rows.at(from.all, from.first) + block * from.all * kRows;
  read_panel(pass, rows, from, block, room);
  if (turns) pass.turn(block, 1, room);
  return room;
}

/// All panels of a head, in the same way.
inline Panels panels_of(const Pass& pass, const SequenceRows& rows, const Features<const float>& from, bool turned,
                        float* room) {
  const float* const first = panel_of(pass, rows, from, turned, 0, room);
  if (first != room) return {first, from.all * kRows};
  for (Index block = 1; block < pass.blocks(); ++block) {
    panel_of(pass, rows, from, turned, block, room + block * pass.panel());
  }
  return {room, pass.panel()};
}

inline void multiply(const Loops& loops, const ProductShape& shape, const float* a, const float* b, float* c) {
  loops.product(shape, &a, &b, 1, nullptr, c, nullptr);
}

/// C = [C +] Σ over blocks of A B, of panels B[n][k] and tiles A[k][m]. The last block may have fewer rows.
struct BlockSum {
  const Loops& loops;
  Index m, n;
  Index ldc = kRows;

  void operator()(const SequenceRows& rows, Index first, Index last, const float* tiles, const Panels& panels,
                  bool accumulate, float* c) const {
    std::array<const float*, kRun> a{}, b{};
    Index full = 0;
    for (Index block = first; block < last && rows.size(block) == kRows; ++block, ++full) {
      a[static_cast<std::size_t>(full)] = tiles + full * kTile;
      b[static_cast<std::size_t>(full)] = panels[block];
    }
    ProductShape shape{.m = m, .n = n, .k = kRows, .lda = kRows, .ldb = kRows, .ldc = ldc, .accumulate = accumulate};
    if (full > 0) loops.product(shape, a.data(), b.data(), full, nullptr, c, nullptr);
    if (first + full == last) return;
    shape.k = rows.size(first + full);
    shape.accumulate = accumulate || full > 0;
    multiply(loops, shape, tiles + full * kTile, panels[first + full], c);
  }
};

/// Sets the lanes of activations that hold no example to zero.
inline void clear_unused(const Lanes& lanes, Index features, MutableView y) {
  for (Index block = 0; block < lanes.blocks; ++block) {
    const Index used = lanes.used(block);
    if (used == lanes.width) continue;
    float* const first = y.data() + block * features * lanes.width;
    for (Index i = 0; i < features; ++i) std::fill(first + i * lanes.width + used, first + (i + 1) * lanes.width, 0.0F);
  }
}

/// Factors of the mask of head h for rows [query, query + queries) and keys [key, key + keys), [queries][kRows].
inline void make_mask(const Pass& pass, Index sequence, Index h, Index query, Index queries, Index key, Index keys,
                      float* mask) {
  const MaskKey& mask_key = pass.masks[static_cast<std::size_t>(sequence)];
  const Index rows = pass.spec.rows;
  for (Index i = 0; i < queries; ++i) {
    const auto first = mask_key.first + static_cast<std::uint64_t>((h * rows + query + i) * rows + key);
    pass.loops.attention.mask(mask_key, first, keys, mask + i * kRows);
  }
}

/// Into how many parts each key head's blocks are divided, so that all threads have about equal work.
inline Index parts_of(Index heads, Index blocks, int threads) {
  if (heads % threads == 0 || heads >= 4 * threads) return 1;
  return std::clamp<Index>((4 * threads + heads - 1) / heads, 1, blocks);
}

/// Of each sequence; empty where there is no dropout.
std::vector<MaskKey> mask_keys(const DropoutKey& key, std::span<const std::uint64_t> examples);

}  // namespace unisono::kernels::cpu::attention
