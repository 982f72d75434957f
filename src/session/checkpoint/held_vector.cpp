#include "unisono/session/held_vector.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace unisono::session {

bool is_divided(const HeldState& state) {
  return std::any_of(state.begin(), state.end(), [](const HeldVector& vector) { return !vector.common; });
}

HeldVector whole_vector(std::string group, const ParameterLayout& layout, MutableView values, Allocator& memory) {
  HeldVector vector{.group = std::move(group), .layout = layout, .values = values, .shards = {}, .memory = &memory};
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    const Block& block = layout.blocks()[i];
    vector.shards.push_back(
        {.block = i,
         .box = whole_box(block),
         .place = {.offset = block.offset, .counts = block.shape, .strides = stored_strides(block)}});
  }
  return vector;
}

HeldVector divided_vector(std::string group, const ParameterLayout& layout, const ShardMap& map, int rank,
                          MutableView values, const std::vector<Index>& offsets) {
  HeldVector vector{.group = std::move(group), .layout = layout, .values = values, .shards = {}, .common = false};
  const std::vector<Shard>& shards = map.shards_of(rank);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    LocalBox place = locate(map, rank, i, shards[i].box);
    if (!offsets.empty()) place.offset = offsets[i];
    vector.shards.push_back(
        {.block = shards[i].block, .box = shards[i].box, .place = std::move(place), .writes = shards[i].copy == 0});
  }
  return vector;
}

HeldShard some_of(const HeldShard& shard, comm::Slice slice) {
  HeldShard some = shard;
  AxisRange& front = some.box.front();
  front.first += slice.first * front.step;
  front.count = slice.last - slice.first;
  some.place.offset += slice.first * some.place.strides.front();
  some.place.counts.front() = front.count;
  return some;
}

std::vector<HeldShard> shards_to_write(const HeldVector& vector, int writer, int writers) {
  std::vector<HeldShard> shares;
  if (!vector.common) {
    std::ranges::copy_if(vector.shards, std::back_inserter(shares), &HeldShard::writes);
    return shares;
  }
  for (const HeldShard& shard : vector.shards) {
    if (writer >= writers) break;
    shares.push_back(some_of(shard, comm::slice_of(shard.box.front().count, writer, writers)));
  }
  return shares;
}

}  // namespace unisono::session
