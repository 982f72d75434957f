#include "unisono/session/stored_vector.hpp"

#include "unisono/comm/communicator.hpp"

namespace unisono::session {

std::vector<Shard> shards_to_write(const StoredVector& vector, int writer, int writers) {
  if (vector.of == ValuesOf::another_replica) return {};
  std::vector<Shard> shards = vector.holding->shards();
  if (vector.of == ValuesOf::this_replica) return shards;
  if (!vector.holding->held_by_all()) {
    std::erase_if(shards, [](const Shard& shard) { return shard.copy != 0; });
    return shards;
  }
  if (writer >= writers) return {};
  for (Shard& shard : shards) {
    const comm::Slice own = comm::slice_of(shard.box.front().count, writer, writers);
    shard = rows_of(shard, own.first, own.last);
  }
  return shards;
}

}  // namespace unisono::session
