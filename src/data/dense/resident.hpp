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

// The rows of a table with a recipe, encoded with the fit of a fold.

/// The stored columns of all groups, in memory.
class RawTable {
 public:
  /// \throws DataError if the file cannot be read
  explicit RawTable(const SetSchema& schema);
  /// [all rows of the group, columns of the recipe] \param group its number in the schema
  std::span<const float> rows(std::size_t group) const { return groups_[group]; }

 private:
  std::array<std::vector<float>, 3> groups_;
};

/// What a fold's training rows make of a recipe's columns, and the fold's rows and the test rows encoded with it.
class EncodedTable {
 public:
  /// \param whole the set's preprocessing, fitted on all its examples \param answers blocks of its rows: the encoded
  /// rows have their answers, and must not outlive them \param fold its examples
  /// \throws DataError for a value that the fit cannot encode, e.g. a level that no training row has
  EncodedTable(const RawTable& raw, const Preprocessing& whole, const GroupBlocks& answers, const SetPlan& fold);

  const std::vector<FittedColumn>& columns() const { return columns_; }
  /// Whether the columns become other features than with the fit of the whole set; if not, nothing is encoded here.
  bool differs() const { return differs_; }
  Index width() const { return width_; }  ///< features
  /// The encoded rows. \pre differs()
  const GroupBlocks& blocks() const { return blocks_; }

 private:
  std::vector<FittedColumn> columns_;
  bool differs_ = false;
  Index width_ = 0;
  std::array<Buffer, 3> features_;  ///< by group: all of its rows; those in no part of the fold are 0
  GroupBlocks blocks_;
};

}  // namespace unisono::data
