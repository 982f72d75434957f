#include "unisono/tensor/holding.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace unisono {
namespace {

/// The floats of each block of a rank's layout.
std::vector<FloatRange> floats_of_blocks(const ParameterLayout& local) {
  const std::vector<Block>& blocks = local.blocks();
  std::vector<FloatRange> floats;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    floats.push_back({blocks[i].offset, i + 1 < blocks.size() ? blocks[i + 1].offset : local.size()});
  }
  return floats;
}

/// Whether every rank holds all of the vector, as the layout of the whole has it.
bool all_hold_all(const ShardMap& map) {
  for (int rank = 0; rank < map.ranks(); ++rank) {
    if (map.local(rank).parameters() < map.layout().parameters()) return false;
    if (map.local(rank).blocks().size() != map.layout().blocks().size()) return false;
  }
  return true;
}

}  // namespace

std::vector<FloatRange> joined(const std::vector<BlockRange>& ranges) {
  std::vector<FloatRange> all;
  for (const BlockRange& range : ranges) {
    if (!range.counts) continue;
    if (!all.empty() && all.back().last == range.floats.first) {
      all.back().last = range.floats.last;
    } else {
      all.push_back(range.floats);
    }
  }
  return all;
}

std::vector<BlockRange> WholeHolding::ranges() const {
  std::vector<BlockRange> ranges;
  for (const FloatRange& floats : floats_of_blocks(layout_)) ranges.push_back({floats, ranges.size()});
  return ranges;
}

MapHolding::MapHolding(const ShardMap& map, int rank, SquaresReducer& squares)
    : map_(map), rank_(rank), squares_(squares), held_by_all_(all_hold_all(map)) {}

std::vector<BlockRange> MapHolding::ranges() const {
  std::vector<BlockRange> ranges;
  auto shard = map_.shards_of(rank_).begin();  // in the order of the blocks, of which each begins with one
  for (const FloatRange& floats : floats_of_blocks(map_.local(rank_))) {
    while (shard->place.offset != floats.first) ++shard;
    ranges.push_back({floats, shard->block, shard->copy != Shard::kAgain});
  }
  return ranges;
}

namespace {

Index lines_of(Index floats) { return round_up_to_line(floats) / kLineFloats; }

/// Cuts a range of a shard into boxes: along its outermost stored axis, positions that are in the range as a
/// whole, and, cut along the next axis, the first and the last one, which may be in it only in part.
class RangeCutter {
 public:
  RangeCutter(const Shard& shard, Index origin, std::vector<Shard>& parts)
      : shard_(shard), origin_(origin), strides_(shard.place.strides), shape_(shard.place.counts), parts_(parts) {
    order_.resize(shape_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    // Axes with one position come last: they may have the stride of another axis.
    const auto key = [this](std::size_t axis) { return shape_[axis] == 1 ? 0 : strides_[axis]; };
    std::ranges::stable_sort(order_, std::greater(), key);
  }

  /// \param depth how many axes, in their stored order, have one position left in `box`, which counts positions of the
  /// shard
  /// \param offset of the box in the vector \param range floats from there
  void cut(std::size_t depth, const Box& box, Index offset, const FloatRange& range) {
    const std::size_t axis = order_[depth];
    const Index stride = strides_[axis], used = used_by_one(depth);
    const Index begin = (range.first + stride - 1) / stride;
    const Index end = range.last < used ? 0 : std::min(shape_[axis], (range.last - used) / stride + 1);
    const auto cut_one = [&](Index position) {
      if (position >= shape_[axis] || (begin <= position && position < end)) return;
      const Index start = position * stride;
      const FloatRange inner{std::max<Index>(0, range.first - start), std::min(used, range.last - start)};
      if (inner.first < inner.last) cut(depth + 1, with(box, axis, {position, 1}), offset + start, inner);
    };
    const Index first = range.first / stride, last = (range.last - 1) / stride;
    cut_one(first);
    if (begin < end) add(with(box, axis, {begin, end - begin}), offset + begin * stride);
    if (last != first) cut_one(last);
  }

 private:
  /// Floats from the first number of a position along this axis to the end of its last one.
  Index used_by_one(std::size_t depth) const {
    Index size = 1;
    for (std::size_t i = depth + 1; i < order_.size(); ++i) size += (shape_[order_[i]] - 1) * strides_[order_[i]];
    return size;
  }

  static Box with(Box box, std::size_t axis, const AxisRange& range) {
    box[axis] = range;
    return box;
  }

  void add(Box box, Index offset) {
    Shard part{.block = shard_.block,
               .box = std::move(box),
               .place = {.offset = offset - origin_, .counts = {}, .strides = strides_},
               .copy = shard_.copy};
    for (std::size_t axis = 0; axis < part.box.size(); ++axis) {
      AxisRange& range = part.box[axis];
      const AxisRange& held = shard_.box[axis];
      part.place.counts.push_back(range.count);
      range = {.first = held.first + range.first * held.step, .count = range.count, .step = held.step};
    }
    parts_.push_back(std::move(part));
  }

  const Shard& shard_;
  Index origin_;
  std::vector<Index> strides_, shape_;
  std::vector<std::size_t> order_;  ///< axes with several positions by their stride, the largest first; then others
  std::vector<Shard>& parts_;
};

/// Floats from its first number to the end of its last one.
Index stored_size(const LocalBox& place) {
  Index size = 1;
  for (std::size_t axis = 0; axis < place.counts.size(); ++axis) size += (place.counts[axis] - 1) * place.strides[axis];
  return size;
}

/// All of a shard, in positions of the shard.
Box own_box(const Shard& shard) {
  Box box;
  for (const Index count : shard.place.counts) box.push_back({.first = 0, .count = count});
  return box;
}

/// Calls visit(offset of the first element) for each line along the last axis, in canonical order.
template <typename Visit>
void for_each_line(const std::vector<Index>& counts, const std::vector<Index>& strides, Visit visit) {
  const std::size_t outer = counts.empty() ? 0 : counts.size() - 1;
  std::vector<Index> at(outer, 0);
  Index lines = 1, offset = 0;
  for (std::size_t axis = 0; axis < outer; ++axis) lines *= counts[axis];
  for (Index line = 0; line < lines; ++line) {
    visit(offset);
    for (std::size_t axis = outer; axis-- > 0;) {
      offset += strides[axis];
      if (++at[axis] < counts[axis]) break;
      offset -= counts[axis] * strides[axis];
      at[axis] = 0;
    }
  }
}

/// The same numbers in the same order, with neighbouring axes joined where possible.
LocalBox merged(const LocalBox& box) {
  LocalBox merged{.offset = box.offset, .counts = {}, .strides = {}};
  for (std::size_t axis = 0; axis < box.counts.size(); ++axis) {
    if (box.counts[axis] == 1) continue;
    if (!merged.counts.empty() && merged.strides.back() == box.counts[axis] * box.strides[axis]) {
      merged.counts.back() *= box.counts[axis];
      merged.strides.back() = box.strides[axis];
    } else {
      merged.counts.push_back(box.counts[axis]);
      merged.strides.push_back(box.strides[axis]);
    }
  }
  return merged;
}

/// Calls copy(pointer into the vector, stride there, pointer into the packed numbers, count) for each line of the box.
template <typename Vector, typename Packed, typename Copy>
void for_each_packed_line(const LocalBox& given, Vector* vector, Packed* packed, Copy copy) {
  const LocalBox box = merged(given);
  const Index count = box.counts.empty() ? 1 : box.counts.back(), stride = box.counts.empty() ? 1 : box.strides.back();
  if (count == 0) return;
  for_each_line(box.counts, box.strides, [&](Index offset) {
    copy(vector + box.offset + offset, stride, packed, count);
    packed += count;
  });
}

}  // namespace

Index VectorShards::pieces() const { return std::min(kPieces, lines_of(size_)); }

FloatRange VectorShards::piece(Index number) const {
  const auto bound = [&](Index i) { return std::min(size_, share_of(lines_of(size_), i, pieces()) * kLineFloats); };
  return {bound(number), bound(number + 1)};
}

FloatRange VectorShards::pieces_of(int rank) const {
  return {share_of(pieces(), rank, ranks_), share_of(pieces(), rank + 1, ranks_)};
}

FloatRange VectorShards::shard(int rank) const {
  const FloatRange own = pieces_of(rank);
  if (own.first == own.last) return {};
  return {piece(own.first).first, piece(own.last - 1).last};
}

std::vector<Shard> parts_of(const std::vector<Shard>& shards, const FloatRange& range) {
  std::vector<Shard> parts;
  for (const Shard& shard : shards) {
    const Index offset = shard.place.offset;
    const Index first = std::max(range.first, offset), last = std::min(range.last, offset + stored_size(shard.place));
    if (first >= last) continue;
    RangeCutter(shard, range.first, parts).cut(0, own_box(shard), offset, {first - offset, last - offset});
  }
  return parts;
}

// Where parts of blocks lie in a rank's vector, and in a block's canonical order.

std::vector<Shard> whole_shards(const ParameterLayout& layout) {
  std::vector<Shard> shards;
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    const Block& block = layout.blocks()[i];
    shards.push_back({.block = i,
                      .box = whole_box(block),
                      .place = {.offset = block.offset, .counts = block.shape, .strides = stored_strides(block)}});
  }
  return shards;
}

LocalBox locate(const Shard& shard, const Box& box) {
  LocalBox place{.offset = shard.place.offset, .counts = {}, .strides = shard.place.strides};
  for (std::size_t axis = 0; axis < box.size(); ++axis) {
    const AxisRange& held = shard.box[axis];
    place.counts.push_back(box[axis].count);
    place.offset += (box[axis].first - held.first) / held.step * place.strides[axis];
    place.strides[axis] *= box[axis].step / held.step;
  }
  return place;
}

Shard rows_of(const Shard& shard, Index first, Index last) {
  Shard some = shard;
  AxisRange& front = some.box.front();
  front.first += first * front.step;
  front.count = last - first;
  some.place.offset += first * some.place.strides.front();
  some.place.counts.front() = front.count;
  return some;
}

void for_each_run(const Block& block, const Box& box,
                  const std::function<void(Index position, Index step, Index count)>& visit) {
  if (size_of(box) == 0) return;
  Index first = 0, extent = 1;
  std::vector<Index> counts(box.size()), strides(box.size());
  for (std::size_t axis = box.size(); axis-- > 0;) {
    first += box[axis].first * extent;
    counts[axis] = box[axis].count;
    strides[axis] = box[axis].step * extent;
    extent *= block.shape[axis];
  }
  const Index count = box.empty() ? 1 : box.back().count, step = box.empty() ? 1 : box.back().step;
  for_each_line(counts, strides, [&](Index offset) { visit(first + offset, step, count); });
}

void pack(const LocalBox& box, View vector, MutableView packed) {
  for_each_packed_line(box, vector.data(), packed.data(), [](const float* from, Index stride, float* to, Index count) {
    if (stride == 1) {
      std::copy_n(from, count, to);
    } else {
      for (Index i = 0; i < count; ++i) to[i] = from[i * stride];
    }
  });
}

void unpack(const LocalBox& box, View packed, MutableView vector) {
  for_each_packed_line(box, vector.data(), packed.data(), [](float* to, Index stride, const float* from, Index count) {
    if (stride == 1) {
      std::copy_n(from, count, to);
    } else {
      for (Index i = 0; i < count; ++i) to[i * stride] = from[i];
    }
  });
}

}  // namespace unisono
