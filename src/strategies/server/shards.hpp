#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::strategies {

/// Of a vector of θ's size what lies in a shard.
template <typename Vector>
Vector slice(Vector whole, comm::Slice place) {
  return whole.subspan(static_cast<std::size_t>(place.first), static_cast<std::size_t>(place.last - place.first));
}

/// Where θ may be cut into shards.
enum class Cut {
  lines,   ///< between any two cache lines
  blocks,  ///< between blocks: the update rule takes norms of whole ones (LARS, LAMB)
};

/// θ in so many parts of about equal bytes, one behind the other; some may be empty.
std::vector<comm::Slice> cut_into_shards(const ParameterLayout& layout, int shards, Cut cut);
/// The same, between rows of these spaces.
std::vector<comm::Slice> cut_between_rows(Index floats, const std::vector<models::RowSpace>& spaces, int shards);

/// The blocks of θ as far as they lie in a shard, at the same distances: what an optimizer of the shard alone needs to
/// know. Blocks that are cut are of one dimension.
ParameterLayout layout_of_shard(const ParameterLayout& layout, comm::Slice shard);

/// The rows of θ that lie in a shard, numbered from 0, and what belongs to no row.
class ShardRows {
 public:
  ShardRows(Index floats, const std::vector<models::RowSpace>& spaces, comm::Slice shard);

  std::int64_t count() const { return count_; }
  /// Adds the numbers of those rows that were touched, in order, to `rows`, and forgets that they were.
  void take_touched(models::TouchedRows& touched, std::vector<std::uint32_t>& rows) const;
  /// Floats of these rows, and of what belongs to no row.
  Index floats_of(std::span<const std::uint32_t> rows) const;
  /// Calls visit(offset in θ, floats) for each of these rows, and then for each segment that belongs to no row.
  template <typename Visit>
  void for_each(std::span<const std::uint32_t> rows, Visit visit) const {
    auto part = parts_.begin();
    for (const std::uint32_t row : rows) {
      while (row >= part->number + part->rows) ++part;
      visit(part->offset + (row - part->number) * part->stride, part->stride);
    }
    for (const comm::Slice& segment : rest_) visit(segment.first, segment.last - segment.first);
  }

 private:
  /// The rows of a space that lie in the shard.
  struct RowSegment {
    std::size_t space;
    Index first, rows;    ///< of the space
    std::int64_t number;  ///< of the first one
    Index offset, stride;
  };
  std::vector<RowSegment> parts_;
  std::vector<comm::Slice> rest_;
  std::int64_t count_ = 0;
};

}  // namespace unisono::strategies
