#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "order/schedule.hpp"

namespace unisono::data {

/// Maps the examples of a split to rows of a group in the file, ascending: position 0 … size−1 → row.
class RowRuns {
 public:
  /// Consecutive rows [first_row, first_row + rows), at the positions from first_position on.
  struct Run {
    std::int64_t first_row = 0, rows = 0, first_position = 0;
  };

  RowRuns() = default;
  /// All rows of a group.
  explicit RowRuns(std::int64_t rows) { append(0, rows); }

  /// Appends rows. \pre they come after all rows so far
  void append(std::int64_t first_row, std::int64_t rows);
  /// Called after the last append: makes `row` fast where runs are short.
  void index();

  std::int64_t size() const { return size_; }
  std::int64_t row(std::int64_t position) const;
  /// The rows of these positions, as runs.
  std::vector<Run> runs(Range positions) const;
  /// The smallest range of rows that holds these positions.
  Range span(Range positions) const;

 private:
  const Run& run_of(std::int64_t position) const;
  static constexpr std::int64_t kIndexed = 16;  ///< positions of an entry of the index

  std::vector<Run> runs_;
  std::vector<std::uint32_t> run_at_;  ///< the run of every kIndexed-th position; empty: there is no index
  std::int64_t size_ = 0;
};

/// One group's rows, divided into training and validation examples.
struct ValidationSplit {
  RowRuns train, validation;
};

/// Splits at random in units of `unit_rows` consecutive rows: about `fraction` of the units, at least one and not all,
/// are for validation. Rows after the last whole unit are for training. A function of its arguments alone.
/// \pre there are two units
ValidationSplit split_validation(std::int64_t rows, std::int64_t unit_rows, double fraction, std::uint64_t seed);

/// Splits at random row by row, so that about the same fraction of each class is for validation: ⌊fraction · its rows⌋,
/// and one more for the classes with the largest remainders (Hamilton's method). A function of its arguments alone.
/// \param strata the class of each row, at least 0 \pre there are two rows
ValidationSplit split_stratified(std::span<const std::int32_t> strata, double fraction, std::uint64_t seed);

/// How many units of n are for validation.
std::int64_t validation_units(std::int64_t units, double fraction);

}  // namespace unisono::data
