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

/// Cuts a range of a stored block into boxes: along its outermost stored axis, positions that are in the range as a
/// whole, and, cut along the next axis, the first and the last one, which may be in it only in part.
class RangeCutter {
 public:
  RangeCutter(const Block& block, std::size_t number, Index origin, std::vector<BlockPart>& parts)
      : number_(number), origin_(origin), strides_(stored_strides(block)), shape_(block.shape), parts_(parts) {
    order_.resize(shape_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    // Axes with one position come last: they may have the stride of another axis.
    const auto key = [this](std::size_t axis) { return shape_[axis] == 1 ? 0 : strides_[axis]; };
    std::ranges::stable_sort(order_, std::greater(), key);
  }

  /// \param depth how many axes, in their stored order, have one position left in `box`
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
    LocalBox place{.offset = offset - origin_, .counts = {}, .strides = strides_};
    for (const AxisRange& range : box) place.counts.push_back(range.count);
    parts_.push_back({number_, std::move(box), std::move(place)});
  }

  std::size_t number_;
  Index origin_;
  std::vector<Index> strides_, shape_;
  std::vector<std::size_t> order_;  ///< axes with several positions by their stride, the largest first; then others
  std::vector<BlockPart>& parts_;
};

}  // namespace

std::vector<BlockPart> parts_of(const ParameterLayout& layout, const FloatRange& range) {
  std::vector<BlockPart> parts;
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    const Block& block = layout.blocks()[i];
    const Index first = std::max(range.first, block.offset);
    const Index last = std::min(range.last, block.offset + block.stored_size());
    if (first >= last) continue;
    RangeCutter(block, i, range.first, parts)
        .cut(0, whole_box(block), block.offset, {first - block.offset, last - block.offset});
  }
  return parts;
}

}  // namespace unisono
