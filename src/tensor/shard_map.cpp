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
    std::vector<RowSlice> beside;
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

/// Cuts each block along an axis, or along its last one where it has fewer, in proportion to the weights.
ShardMap cut_along(ParameterLayout layout, std::size_t axis, const std::vector<Index>& weights) {
  const Index sum = std::accumulate(weights.begin(), weights.end(), Index{0});
  std::vector<std::vector<Shard>> shards(weights.size());
  for (std::size_t block = 0; block < layout.blocks().size(); ++block) {
    Box box = whole_box(layout.blocks()[block]);
    AxisRange& range = box[std::min(axis, box.size() - 1)];
    const Index extent = range.count;
    Index before = 0;
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      range.first = share_of(extent, before, sum);
      range.count = share_of(extent, before += weights[rank], sum) - range.first;
      shards[rank].push_back({.block = block, .box = box});
    }
  }
  return {std::move(layout), 1, std::move(shards)};
}

std::vector<Index> equal_weights(int ranks) { return std::vector<Index>(static_cast<std::size_t>(ranks), 1); }

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

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box both;
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    const auto range = intersection(a[axis], b[axis]);
    if (!range) return {};
    both.push_back(*range);
  }
  return both;
}

// --- Local layouts ---------------------------------------------------------------------------------------------------

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

void ShardMap::require_valid(const Shard& shard) const {
  bool valid = shard.block < layout_.blocks().size() && shard.copy >= 0 && shard.copy < copies_;
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

std::optional<Element> ShardMap::element_at(int rank, Index offset) const {
  const std::vector<Block>& blocks = local(rank).blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Shard& shard = shards_of(rank)[i];
    const std::vector<Index> strides = stored_strides(blocks[i]);
    std::vector<std::size_t> axes(strides.size());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    // An axis of length 1 may have the same stride as a longer one: it comes after that.
    std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(strides[a], blocks[i].shape[a]) > std::pair(strides[b], blocks[i].shape[b]);
    });
    Index rest = offset - blocks[i].offset;
    bool inside = rest >= 0;
    std::vector<Index> at(axes.size(), 0);
    for (const std::size_t axis : axes) {
      if (!inside) break;
      at[axis] = blocks[i].shape[axis] == 1 ? 0 : rest / strides[axis];
      rest -= at[axis] * strides[axis];
      inside = at[axis] < blocks[i].shape[axis];
    }
    if (!inside || rest != 0) continue;
    Element element{.block = shard.block, .position = 0};
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      element.position = element.position * layout_.blocks()[shard.block].shape[axis] + shard.box[axis].first +
                         at[axis] * shard.box[axis].step;
    }
    return element;
  }
  return {};
}

std::optional<Index> ShardMap::offset_of(int rank, Element element) const {
  const std::vector<Index>& shape = layout_.blocks().at(element.block).shape;
  Box one(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    one[axis] = {.first = element.position % shape[axis], .count = 1};
    element.position /= shape[axis];
  }
  for (std::size_t i = 0; i < shards_of(rank).size(); ++i) {
    const Shard& shard = shards_of(rank)[i];
    if (shard.block == element.block && intersection(shard.box, one)) return locate(shard, one).offset;
  }
  return {};
}

std::vector<int> ShardMap::holders(std::size_t block, const Box& box) const {
  std::vector<int> ranks_that_hold;
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::vector<Shard>& shards = shards_of(rank);
    const bool holds = std::any_of(shards.begin(), shards.end(), [&](const Shard& shard) {
      return shard.block == block && intersection(shard.box, box).has_value();
    });
    if (holds) ranks_that_hold.push_back(rank);
  }
  return ranks_that_hold;
}

int ShardMap::copy_to_read(int rank, std::size_t block) const {
  if (rank < ranks()) {
    for (const Shard& shard : shards_of(rank)) {
      if (shard.block == block) return shard.copy;
    }
  }
  return rank % copies_;
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

ShardMap ShardMap::whole(ParameterLayout layout, int ranks) { return stages(std::move(layout), {0}, ranks); }

/// A block goes to the rank in whose share of all numbers its middle lies.
ShardMap ShardMap::by_blocks(ParameterLayout layout, int ranks) {
  Index all = 0, before = 0;
  for (const Block& block : layout.blocks()) all += block.size();
  std::vector<std::vector<Shard>> shards(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    const Block& block = layout.blocks()[i];
    const Index middle = before + block.size() / 2;
    const Index holder = std::min<Index>(share_of(ranks, middle, std::max<Index>(1, all)), ranks - 1);
    shards[static_cast<std::size_t>(holder)].push_back({.block = i, .box = whole_box(block)});
    before += block.size();
  }
  return {std::move(layout), 1, std::move(shards)};
}

ShardMap ShardMap::by_rows(ParameterLayout layout, int ranks) {
  return cut_along(std::move(layout), 0, equal_weights(ranks));
}

ShardMap ShardMap::by_columns(ParameterLayout layout, int ranks) {
  return cut_along(std::move(layout), 1, equal_weights(ranks));
}

ShardMap ShardMap::by_weights(ParameterLayout layout, const std::vector<Index>& weights) {
  return cut_along(std::move(layout), 0, weights);
}

ShardMap ShardMap::stages(ParameterLayout layout, const std::vector<std::size_t>& first_blocks, int replicas) {
  const int stages = static_cast<int>(first_blocks.size());
  std::vector<std::vector<Shard>> shards(static_cast<std::size_t>(replicas * stages));
  for (std::size_t block = 0; block < layout.blocks().size(); ++block) {
    const auto behind = std::upper_bound(first_blocks.begin(), first_blocks.end(), block);
    const int stage = static_cast<int>(behind - first_blocks.begin()) - 1;
    for (int replica = 0; replica < replicas; ++replica) {
      const auto holder = static_cast<std::size_t>(replica * stages + stage);
      shards[holder].push_back({.block = block, .box = whole_box(layout.blocks()[block]), .copy = replica});
    }
  }
  return {std::move(layout), replicas, std::move(shards)};
}

}  // namespace unisono
