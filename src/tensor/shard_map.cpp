#include "unisono/tensor/shard_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "unisono/base/random.hpp"

namespace unisono {
namespace {

/// The shard's block, as the rank stores it by itself.
Block local_block(const Block& block, const Shard& shard) {
  Block local = block;
  for (std::size_t axis = 0; axis < local.shape.size(); ++axis) local.shape[axis] = shard.box[axis].count;
  local.stride = 0;
  local.offset = 0;
  return local;
}

/// Whether the shard holds whole rows of a block with a row stride (padded or interleaved rows).
bool keeps_row_stride(const Block& block, const Shard& shard) {
  const Box whole = whole_box(block);
  return block.stride != 0 && std::equal(shard.box.begin() + 1, shard.box.end(), whole.begin() + 1);
}

/// The offset of the first of the blocks that a block's rows are interleaved with.
Index segment_of(const ParameterLayout& layout, const Block& block) {
  Index first = block.offset;
  for (const Block& other : layout.blocks()) {
    const bool is_beside =
        other.stride == block.stride && other.offset <= block.offset && block.offset - other.offset < block.stride;
    if (is_beside) first = std::min(first, other.offset);
  }
  return first;
}

/// How many shards from `first` on hold the same rows of interleaved blocks.
std::size_t shards_beside(const ParameterLayout& layout, const std::vector<Shard>& shards, std::size_t first) {
  const Block& block = layout.blocks()[shards[first].block];
  const Index segment = segment_of(layout, block);
  std::size_t last = first + 1;
  for (; last < shards.size(); ++last) {
    const Block& next = layout.blocks()[shards[last].block];
    const bool is_beside = next.stride == block.stride && keeps_row_stride(next, shards[last]) &&
                           segment_of(layout, next) == segment && shards[last].block > shards[last - 1].block &&
                           shards[last].box.front() == shards[first].box.front();
    if (!is_beside) break;
  }
  return last - first;
}

ParameterLayout local_layout(const ParameterLayout& layout, const std::vector<Shard>& shards) {
  ParameterLayout local;
  for (std::size_t i = 0; i < shards.size();) {
    const Block& block = layout.blocks()[shards[i].block];
    if (!keeps_row_stride(block, shards[i])) {
      local.add(local_block(block, shards[i++]));
      continue;
    }
    const Index segment = segment_of(layout, block);
    std::vector<InterleavedBlock> beside;
    for (std::size_t count = shards_beside(layout, shards, i); count > 0; --count, ++i) {
      const Block& next = layout.blocks()[shards[i].block];
      beside.push_back({local_block(next, shards[i]), next.offset - segment});
    }
    local.add_rows(std::move(beside), block.stride);
  }
  return local;
}

bool is_part(const AxisRange& range, Index extent) {
  return range.first >= 0 && range.step >= 1 && range.count >= 1 && range.last() < extent;
}

}  // namespace

// --- Ranges and boxes ------------------------------------------------------------------------------------------------

Box whole_box(const Block& block) {
  Box box;
  for (const Index extent : block.shape) box.push_back({.first = 0, .count = extent});
  return box;
}

Index size_of(const Box& box) {
  Index size = 1;
  for (const AxisRange& range : box) size *= range.count;
  return size;
}

std::optional<AxisRange> intersection(const AxisRange& a, const AxisRange& b) {
  if (a.count == 0 || b.count == 0) return {};
  const Index least = std::max(a.first, b.first), last = std::min(a.last(), b.last());
  Index first = a.first + (least - a.first + a.step - 1) / a.step * a.step;  // of a's, the first that both reach
  const Index period = std::lcm(a.step, b.step), end = first + period;
  while (first < end && (first - b.first) % b.step != 0) first += a.step;
  if (first == end || first > last) return {};
  return AxisRange{.first = first, .count = (last - first) / period + 1, .step = period};
}

// --- Maps ------------------------------------------------------------------------------------------------------------

ShardMap::ShardMap(ParameterLayout layout, int copies, std::vector<std::vector<Shard>> shards)
    : layout_(std::move(layout)), copies_(copies), held_(shards.size()) {
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    std::erase_if(shards[rank], [](const Shard& shard) { return size_of(shard.box) == 0; });
    for (const Shard& shard : shards[rank]) require_valid(shard);
    held_[rank].shards = std::move(shards[rank]);
  }
  require_whole_copies();
  for (Held& held : held_) {
    held.layout = local_layout(layout_, held.shards);
    for (std::size_t i = 0; i < held.shards.size(); ++i) {
      const Block& block = held.layout.blocks()[i];
      held.shards[i].place = {.offset = block.offset, .counts = block.shape, .strides = stored_strides(block)};
    }
  }
}

ShardMap::ShardMap(ParameterLayout layout, int copies, std::vector<Held> held)
    : layout_(std::move(layout)), copies_(copies), held_(std::move(held)) {
  for (const Held& one : held_) {
    for (const Shard& shard : one.shards) require_valid(shard);
  }
  require_whole_copies();
}

void ShardMap::require_valid(const Shard& shard) const {
  const bool is_of_copy = shard.copy == Shard::kAgain || (shard.copy >= 0 && shard.copy < copies_);
  bool valid = shard.block < layout_.blocks().size() && is_of_copy;
  if (valid) {
    const std::vector<Index>& shape = layout_.blocks()[shard.block].shape;
    valid = shape.size() == shard.box.size();
    for (std::size_t axis = 0; valid && axis < shape.size(); ++axis) valid = is_part(shard.box[axis], shape[axis]);
  }
  if (valid) return;
  throw std::logic_error(fmt::format("no rank can hold such a shard of block {}", shard.block));
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    if (!intersection(a[axis], b[axis])) return false;
  }
  return true;
}

/// Shards that do not overlap hold each number once if their sizes add up to the block's.
void ShardMap::require_whole_copies() const {
  std::vector<std::vector<const Box*>> boxes(layout_.blocks().size() * static_cast<std::size_t>(copies_));
  for (const Held& held : held_) {
    for (const Shard& shard : held.shards) {
      if (shard.copy == Shard::kAgain) continue;
      boxes[shard.block * static_cast<std::size_t>(copies_) + static_cast<std::size_t>(shard.copy)].push_back(
          &shard.box);
    }
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Block& block = layout_.blocks()[i / static_cast<std::size_t>(copies_)];
    Index size = 0;
    bool twice = false;
    for (const Box* box : boxes[i]) {
      for (const Box* other : boxes[i]) twice |= other < box && overlap(*other, *box);
      size += size_of(*box);
    }
    if (twice || size != block.size()) {
      throw std::logic_error(fmt::format("block '{}' is divided so that some of its numbers are held {}", block.name,
                                         twice ? "twice" : "by nobody"));
    }
  }
}

std::uint64_t ShardMap::hash() const {
  std::string text = fmt::format("{:x}/{}", layout_.hash(), copies_);
  for (int rank = 0; rank < ranks(); ++rank) {
    for (const Shard& shard : shards_of(rank)) {
      text += fmt::format(";{}:{}:{}", rank, shard.copy, shard.block);
      for (const AxisRange& range : shard.box) text += fmt::format(",{}+{}*{}", range.first, range.count, range.step);
    }
  }
  return hash_bytes(text);
}

namespace {

/// The boxes that a block is of a whole one, and their places in its vector. \param number of the whole block
std::vector<Shard> shards_of(const Block& local, const Block& whole, std::size_t number) {
  const std::vector<Index> strides = stored_strides(local);
  if (local.cut.ranges.empty()) {
    return {{.block = number, .box = whole_box(whole), .place = {local.offset, local.shape, strides}}};
  }
  const std::size_t axis = local.cut.axis;
  std::vector<Shard> shards;
  Index offset = local.offset;
  for (const AxisRange& range : local.cut.ranges) {
    Shard shard{.block = number, .box = whole_box(whole), .place = {offset, local.shape, strides}};
    shard.box[axis] = range;
    shard.place.counts[axis] = range.count;
    offset += range.count * strides[axis];
    shards.push_back(std::move(shard));
  }
  return shards;
}

}  // namespace

std::vector<ShardMap::Held> divided_shards(const ParameterLayout& whole, const std::vector<ParameterLayout>& layouts,
                                           int copy) {
  std::vector<ShardMap::Held> held;
  std::vector<std::vector<Box>> counted(whole.blocks().size());
  for (const ParameterLayout& layout : layouts) {
    ShardMap::Held own{.shards = {}, .layout = layout};
    for (const Block& local : layout.blocks()) {
      const Block& block = whole.block(local.name);
      const auto number = static_cast<std::size_t>(&block - whole.blocks().data());
      for (Shard& shard : shards_of(local, block, number)) {
        std::vector<Box>& before = counted[number];
        const bool again = std::ranges::find(before, shard.box) != before.end();
        shard.copy = again ? Shard::kAgain : copy;
        if (!again) before.push_back(shard.box);
        own.shards.push_back(std::move(shard));
      }
    }
    held.push_back(std::move(own));
  }
  return held;
}

}  // namespace unisono
