#include "unisono/tensor/vector_shards.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "unisono/tensor/share.hpp"

namespace unisono {
namespace {

Index lines_of(Index floats) { return round_up_to_line(floats) / kLineFloats; }

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

namespace {

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

}  // namespace

namespace {

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

}  // namespace

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

}  // namespace unisono
