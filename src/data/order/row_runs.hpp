#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "order/slice.hpp"

namespace unisono::data {

/// Which rows of a group are a split's examples, in the file's order: position 0 … size−1 → row.
class RowRuns {
 public:
  /// Rows [first_row, first_row + rows), which are the positions from first_position on.
  struct Run {
    std::int64_t first_row = 0, rows = 0, first_position = 0;
  };

  RowRuns() = default;
  /// All rows of a group.
  explicit RowRuns(std::int64_t rows) { append(0, rows); }

  /// \pre the rows lie behind those that are there
  void append(std::int64_t first_row, std::int64_t rows);

  std::int64_t size() const { return size_; }
  std::int64_t row(std::int64_t position) const;
  /// The rows of these positions, as runs.
  std::vector<Run> runs(Range positions) const;
  /// The smallest range of rows that holds these positions.
  Range span(Range positions) const;

 private:
  const Run& run_of(std::int64_t position) const;
  std::vector<Run> runs_;
  std::int64_t size_ = 0;
};

/// Training and validation examples out of one group of n rows.
struct ValidationSplit {
  RowRuns train, validation;
};

/// The rows are taken in units of so many; about `fraction` of the units, at least one and not all, are for validation.
/// What is
/// left behind the last whole unit is for training. A function of its arguments alone. \pre there are two units
ValidationSplit split_validation(std::int64_t rows, std::int64_t unit_rows, double fraction, std::uint64_t seed);

/// Single rows, so that each class gives about the same fraction: the whole part of fraction · its rows, and one more
/// where the remainder is among the largest (Hamilton's method). A function of its arguments alone.
/// \param strata the class of each row, at least 0 \pre there are two rows
ValidationSplit split_stratified(std::span<const std::int32_t> strata, double fraction, std::uint64_t seed);

/// How many units of n are for validation.
std::int64_t validation_units(std::int64_t units, double fraction);

}  // namespace unisono::data
