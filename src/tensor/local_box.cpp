#include <algorithm>

#include "unisono/tensor/shard_map.hpp"

// Where parts of blocks lie in a rank's vector, and in a block's canonical order.

namespace unisono {

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

namespace {

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
