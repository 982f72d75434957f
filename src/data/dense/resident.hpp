#pragma once

#include <array>
#include <deque>
#include <optional>

#include "dense/plan.hpp"
#include "dense/rows.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// Groups in memory that the ranks of a node share.
class SharedRows {
 public:
  /// Asks for memory for all groups. Collective over the node.
  SharedRows(const SetPlan& plan, const NodeShare& share);

  /// Whether the node has one copy; otherwise each of its ranks will.
  bool shared() const { return memory_.shared(); }
  /// Reads this rank's part of every group. The blocks are complete when all ranks have done so.
  void read(const hdf5::File& file);
  /// Waits for the ranks of the node.
  void complete() const { memory_.complete(); }

  const RowBlock& block(const GroupSchema& group) const;

 private:
  const SetPlan& plan_;
  NodeMemory memory_;
  std::array<RowBlock, 3> blocks_;  ///< by Split that is the group's name
};

/// Rows that this rank alone needs, read when they are first asked for.
class OwnRows {
 public:
  /// A block that holds these rows of the group. It stays as long as this object.
  const RowBlock& block(const hdf5::File& file, const GroupSchema& group, Range rows);

 private:
  struct ResidentGroup {
    const GroupSchema* group;
    OwnedRows rows;
  };
  std::deque<ResidentGroup> parts_;
};

}  // namespace unisono::data
