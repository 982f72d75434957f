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
  vector.shards = whole_shards(layout);
  return vector;
}

HeldVector divided_vector(std::string group, const ParameterLayout& layout, const ShardMap& map, int rank,
                          MutableView values, const std::vector<Index>& offsets) {
  HeldVector vector{.group = std::move(group), .layout = layout, .values = values, .shards = {}, .common = false};
  vector.shards = map.shards_of(rank);
  for (std::size_t i = 0; i < offsets.size(); ++i) vector.shards[i].place.offset = offsets[i];
  return vector;
}

std::vector<Shard> shards_to_write(const HeldVector& vector, int writer, int writers) {
  std::vector<Shard> shares;
  if (!vector.common) {
    std::ranges::copy_if(vector.shards, std::back_inserter(shares), [](const Shard& shard) { return shard.copy == 0; });
    return shares;
  }
  for (const Shard& shard : vector.shards) {
    if (writer >= writers) break;
    const comm::Slice own = comm::slice_of(shard.box.front().count, writer, writers);
    shares.push_back(rows_of(shard, own.first, own.last));
  }
  return shares;
}

}  // namespace unisono::session
