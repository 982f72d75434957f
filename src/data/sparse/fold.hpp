#pragma once

#include "sparse/split.hpp"

// What views of folds need of sparse rows and ratings.

namespace unisono::data {

/// Copied rows of a sparse matrix with their targets.
class CopiedRows {
 public:
  /// \param places of the rows in `from`, in the order of the copy
  CopiedRows(const LabelledRows& from, std::span<const std::int64_t> places);
  LoadedSplit split() const;

 private:
  std::vector<std::uint64_t> offsets_{0};
  std::vector<std::uint32_t> columns_;
  std::vector<float> values_, targets_;
  bool has_values_;
  Index width_;
};

/// The training and validation rows of a fold of sparse rows. Training rows keep their order in memory, validation rows
/// have that of the file.
class FoldedRows {
 public:
  /// \param whole the rows of the group \param copied whether the rows are copied; otherwise the splits name runs of
  /// `whole`, which are short where the rows of the fold lie scattered
  FoldedRows(const LoadedSplit& whole, const Fold& fold, bool copied);
  const LoadedSplit& training() const { return training_; }
  const LoadedSplit& validation() const { return validation_; }

 private:
  std::optional<CopiedRows> training_rows_, validation_rows_;
  LoadedSplit training_, validation_;
};

/// Whether copies of a fold of these rows take little memory.
bool is_small(const LabelledRows& rows);

/// The ratings of a fold, read from the file, with what was counted of them.
class FoldedRatings {
 public:
  /// \param how with the fold \throws DataError
  FoldedRatings(const SparseSchema& schema, const Arrangement& how);
  FoldedRatings(const FoldedRatings&) = delete;  // the memory points to `alone_`
  FoldedRatings& operator=(const FoldedRatings&) = delete;

  const LoadedSplit& training() const { return training_; }
  const LoadedSplit& validation() const { return validation_; }
  double mean_value() const { return mean_value_; }
  /// How many training ratings each user has, then each item; empty: they were not counted.
  const std::vector<std::int64_t>& counts() const { return counts_; }

 private:
  NodeShare alone_;
  std::optional<NodeMemory> memory_;
  LoadedSplit training_, validation_;
  double mean_value_ = 0;
  std::vector<std::int64_t> counts_;
};

}  // namespace unisono::data
