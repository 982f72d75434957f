#pragma once

#include <string>
#include <utility>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::experiment {

/// A part of a block that this rank holds, and where its vector has it.
struct HeldShard {
  std::size_t block = 0;  ///< its number in the layout
  Box box;
  LocalBox place;
  bool writes = true;  ///< false: of several copies it is not the one that files are made of
};

/// A vector with the blocks of a layout, as far as this rank holds it.
struct HeldVector {
  std::string group;  ///< that a checkpoint keeps it in: "parameters", "optimizer/1/velocity"
  const ParameterLayout& layout;
  MutableView values;
  std::vector<HeldShard> shards;
  bool common = true;                      ///< whether all ranks hold all of it; else they divide it
  Allocator* memory = &plain_allocator();  ///< that the values lie in
};
using HeldState = std::vector<HeldVector>;

/// Whether a rank holds what no other has.
bool is_parted(const HeldState& state);

/// A vector that this rank holds all of, in the layout's order.
HeldVector whole_vector(std::string group, const ParameterLayout& layout, MutableView values,
                        Allocator& memory = plain_allocator());
inline HeldVector whole_vector(std::string group, const ParameterLayout& layout, Buffer& values) {
  return whole_vector(std::move(group), layout, values.view(), values.allocator());
}

/// A rank's part of a divided vector. \param layout the map's; must outlive the vector
/// \param offsets of the rank's shards in `values`; empty: as map.local(rank) lays them out
HeldVector divided_vector(std::string group, const ParameterLayout& layout, const ShardMap& map, int rank,
                          MutableView values, const std::vector<Index>& offsets = {});

/// Some of a shard's positions along the first axis, counted from the first one held.
HeldShard some_of(const HeldShard& shard, comm::Slice slice);

/// What one of several writers writes of a vector: its share of each block that all hold; of a divided vector all that
/// it holds, or what of it belongs to the first copy.
std::vector<HeldShard> shards_to_write(const HeldVector& vector, int writer, int writers);

}  // namespace unisono::experiment
