#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/tensor/holding.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::strategies {

/// The part of a vector of θ's size that lies in a shard.
template <typename Vector>
Vector slice(Vector whole, comm::Slice place) {
  return whole.subspan(static_cast<std::size_t>(place.first), static_cast<std::size_t>(place.last - place.first));
}

/// Where θ may be cut into shards.
enum class Cut {
  lines,   ///< between any two cache lines
  blocks,  ///< only between blocks, for update rules with norms of whole blocks (LARS, LAMB)
};

/// Cuts θ into `shards` consecutive parts of about equal size; some may be empty.
std::vector<comm::Slice> cut_into_shards(const ParameterLayout& layout, int shards, Cut cut);
/// The same, but never inside a row of these spaces.
std::vector<comm::Slice> cut_between_rows(Index floats, const std::vector<models::RowSpace>& spaces, int shards);

/// What the server of a shard holds of θ, and of each vector of its optimizer. Its norms take no other server: update
/// rules with norms get whole blocks (Cut::blocks).
std::unique_ptr<const Holding> served_holding(const ParameterLayout& layout, comm::Slice shard);

/// The rows of θ that lie in a shard, numbered from 0 through all spaces, and the segments that belong to no row.
class ShardRows {
 public:
  ShardRows(Index floats, const std::vector<models::RowSpace>& spaces, comm::Slice shard);

  std::int64_t count() const { return count_; }
  /// Appends the numbers of the touched rows, ascending, to `rows`, and resets their marks.
  void take_touched(models::TouchedRows& touched, std::vector<std::uint32_t>& rows) const;
  /// Floats of these rows and of all segments that belong to no row.
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
  /// Those rows of one space that lie in the shard.
  struct RowSegment {
    std::size_t space;
    Index first, rows;    ///< of the space
    std::int64_t number;  ///< of the first one in the shard
    Index offset, stride;
  };
  std::vector<RowSegment> parts_;
  std::vector<comm::Slice> rest_;
  std::int64_t count_ = 0;
};

}  // namespace unisono::strategies
