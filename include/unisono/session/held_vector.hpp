#pragma once

#include <string>
#include <utility>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/tensor/shard_map.hpp"

// Which parts of the vectors of a checkpoint this rank holds, and where in its memory.

namespace unisono::session {

/// This rank's part of a vector with the blocks of a layout.
struct HeldVector {
  std::string group;  ///< its group in checkpoints: "parameters", "optimizer/1/velocity"
  const ParameterLayout& layout;
  MutableView values;
  std::vector<Shard> shards;
  bool common = true;                      ///< whether all ranks hold all of it; otherwise it is divided among them
  Allocator* memory = &plain_allocator();  ///< of the values
};
using HeldState = std::vector<HeldVector>;

/// Whether some vector is divided among the ranks.
bool is_divided(const HeldState& state);

/// A vector of which this rank holds everything, in the layout's order.
HeldVector whole_vector(std::string group, const ParameterLayout& layout, MutableView values,
                        Allocator& memory = plain_allocator());
inline HeldVector whole_vector(std::string group, const ParameterLayout& layout, Buffer& values) {
  return whole_vector(std::move(group), layout, values.view(), values.allocator());
}

/// A rank's part of a divided vector. \param layout the map's; must outlive the vector
/// \param offsets of the rank's shards in `values`; empty: as map.local(rank) lays them out
HeldVector divided_vector(std::string group, const ParameterLayout& layout, const ShardMap& map, int rank,
                          MutableView values, const std::vector<Index>& offsets = {});

/// The parts of a vector that one of several writers writes: of a common vector its share of each block; of a divided
/// one all its shards that are first copies.
std::vector<Shard> shards_to_write(const HeldVector& vector, int writer, int writers);

}  // namespace unisono::session
