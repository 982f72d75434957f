#pragma once

#include <array>
#include <deque>
#include <optional>

#include "dense/plan.hpp"
#include "dense/rows.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// Blocks of all rows of a set's groups, by the Split after which a group is named.
using GroupBlocks = std::array<RowBlock, 3>;

/// The groups of a resident set, in memory that the ranks of a node share.
class SharedRows {
 public:
  /// Allocates memory for all groups. Collective over the node.
  SharedRows(const SetPlan& plan, const NodeShare& share);

  /// Whether the node shares one copy; otherwise each rank loads its own.
  bool shared() const { return memory_.shared(); }
  /// Reads this rank's part of every group. The blocks are complete after `complete`.
  void read(const hdf5::File& file);
  /// A barrier over the node's ranks.
  void complete() const { memory_.complete(); }

  const GroupBlocks& blocks() const { return blocks_; }

 private:
  const SetPlan& plan_;
  NodeMemory memory_;
  GroupBlocks blocks_;
};

/// Rows that only this rank needs, read when they are first requested.
class OwnRows {
 public:
  /// A block that holds these rows of the group; valid as long as this object.
  const RowBlock& block(const hdf5::File& file, const GroupSchema& group, Range rows);

 private:
  struct ResidentGroup {
    const GroupSchema* group;
    OwnedRows rows;
  };
  std::deque<ResidentGroup> parts_;
};

}  // namespace unisono::data
