#pragma once

#include "dense/plan.hpp"
#include "dense/resident.hpp"

// The rows of a table with a recipe, encoded with the fit of a fold.

namespace unisono::data {

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
