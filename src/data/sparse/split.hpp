#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "order/schedule.hpp"
#include "set/agreement.hpp"
#include "sparse/schema.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/unseen.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::data {

/// Ratings sorted into side × side blocks: the rating of item i by user u lies in row u mod side and column i mod side
/// of the grid. Blocks that differ in row and column share neither users nor items. Use: `count` all entries, `place`,
/// `put` all entries.
class RatingGrid {
 public:
  /// \param rows of the grid: only their ratings are kept in memory
  /// \param local whether kept entries get local numbers: users from 0 on, row after row of the grid; items from 0 on
  /// in each column
  RatingGrid(Index side, Index users, Range rows, bool local);

  /// Chooses the side for so many ratings: about 1,024 users or items per row or column, and at least 512 ratings per
  /// block on average.
  static Index side(Index users, Index items, std::int64_t ratings);

  /// First pass: counts an entry in its block.
  void count(const SparseEntry& entry) { ++sizes_[block_of(entry)]; }
  /// After the first pass: lays the kept blocks out one after another, beginning at index `base`.
  void place(std::int64_t base);
  /// Second pass: writes an entry to the next free place of its block, if the block is in `rows`. Call it once for each
  /// counted entry.
  void put(const SparseEntry& entry, Range rows, SparseEntry* entries);
  /// Shuffles the ratings inside each block of these rows: a function of (seed, block, its number of ratings).
  void shuffle(std::uint64_t seed, Range rows, SparseEntry* entries) const;

  Index side() const { return side_; }
  Range rows() const { return rows_; }
  std::int64_t kept() const;  ///< ratings in memory
  std::int64_t all() const;   ///< ratings in the whole grid
  /// The range of a block's ratings in memory. \pre its row is kept
  Range block(Index row, Index column) const;
  std::int64_t block_size(Index row, Index column) const { return sizes_[number(row, column)]; }

 private:
  std::size_t number(Index row, Index column) const { return static_cast<std::size_t>(row * side_ + column); }
  std::size_t block_of(const SparseEntry& entry) const { return number(entry.row % side_, entry.column % side_); }
  std::size_t kept_number(Index row, Index column) const { return number(row - rows_.first, column); }

  Index side_;
  Range rows_;
  bool local_;
  std::vector<Index> first_user_;    ///< [kept rows] local number of a row's first user
  std::vector<std::int64_t> sizes_;  ///< [side · side] ratings of each block
  std::vector<std::int64_t> first_;  ///< [kept rows · side + 1] where a block's ratings begin
  std::vector<std::int64_t> next_;   ///< [kept rows · side] where a block's next rating goes
};

/// A split in memory, divided into chunks of consecutive rows, entries or sentences. An epoch's order permutes the
/// chunks; inside a chunk the order is that in memory.
struct LoadedSplit {
  ExampleSet set;
  std::vector<ExampleRange> chunks;
  std::vector<std::int64_t> chunk_examples;  ///< parallel to `chunks`: its rows, entries or words
  std::int64_t examples = 0;                 ///< over all ranks
  std::shared_ptr<const RatingGrid> grid;    ///< ratings sorted into blocks; else null
  /// Sparse rows: where each of the split's rows of the file lies; size 0: in the file's order.
  KeyedPermutation places;
};

/// How a group is arranged in memory.
struct Arrangement {
  bool shuffle = false;            ///< shuffle its examples once, before they are cut into chunks
  std::uint64_t seed = 0;          ///< of this shuffle
  double validation_fraction = 0;  ///< share of the training examples that is held out for validation
  std::uint64_t split_seed = 0;    ///< of this split
  bool stratify = false;           ///< hold out the same fraction of each class, if there are classes
  const Fold* fold = nullptr;      ///< which are for training and for validation; null: as above
  Index grid = 0;                  ///< ratings: side of the RatingGrid; 0: no grid, the file's order
  int rank = 0, ranks = 0;         ///< ratings: load only this rank's rows of the grid; 0 ranks: all
  bool scaled = false;             ///< sparse rows: values are in memory even where all are 1, for `scale`
};

/// How a split's group is arranged: only what is trained on is shuffled and held back from.
/// \param seed of the run \param grid side of a grid of ratings
Arrangement arrangement_of(const DataSettings& settings, std::uint64_t seed, Split split, Index grid,
                           const NodeShare& share);

/// Loads a group of a file into memory, as one split or as a training and a validation split.
class GroupLoader {
 public:
  virtual ~GroupLoader() = default;
  /// Bytes of memory that it needs.
  virtual std::size_t bytes() const = 0;
  /// Reads this rank's part of the group into memory that the ranks of a node may share.
  /// \throws DataError for invalid values
  virtual void read(const hdf5::File& file, std::byte* base, const NodeMemory& memory) = 0;
  /// The split in memory; called after all ranks have read. \param held_out the validation examples instead of the
  /// training examples
  virtual LoadedSplit split(bool held_out) const = 0;
  /// Sparse rows: multiplies this rank's part of the values in memory by the factor of their column.
  virtual void scale(const std::vector<float>&, const NodeMemory&) {}
  /// Ratings: the mean of the training examples, if it was computed.
  virtual std::optional<double> mean_value() const { return {}; }
  /// Ratings: how many training examples each user has, then each item, if they were counted.
  virtual std::vector<std::int64_t> counts() const { return {}; }
};

std::unique_ptr<GroupLoader> load_rows(const SparseSchema& schema, const SparseGroup& group, const Arrangement& how);
std::unique_ptr<GroupLoader> load_ratings(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group,
                                          const Arrangement& how);
std::unique_ptr<GroupLoader> load_cooccurrences(const SparseSchema& schema, const SparseGroup& group);
std::unique_ptr<GroupLoader> load_text(const SparseSchema& schema, const SparseGroup& group);

/// How many of n examples are held out for validation: at least one and not all, if the fraction is not 0.
std::int64_t held_out_examples(std::int64_t n, double fraction);

/// The size of chunks of so many sparse rows.
std::int64_t rows_at_once(std::int64_t rows);

/// Cuts units [first, last) into chunks of `at_once`; the last one may be smaller.
void cut_evenly(ExampleRange units, std::int64_t at_once, LoadedSplit& split);

// Statistics of a split that every rank holds completely; the same on every rank. Not collective.

/// The mean of the ratings.
double mean_rating(const LoadedSplit& split);
/// How many ratings each user has, followed by how many each item has: [users + items].
std::vector<std::int64_t> count_ratings(const LoadedSplit& split, Index users, Index items);
/// How many rows have each feature.
std::vector<std::int64_t> count_features(const LoadedSplit& split, Index columns);
/// How many rows each class has.
std::vector<std::int64_t> count_labels(const LoadedSplit& split, Index classes);

/// How often each word occurs; empty if the file does not say. \throws DataError
std::vector<std::int64_t> word_counts(const hdf5::File& file, const SparseSchema& schema);

/// Whether a sentence of a text has two words.
bool has_pairs(const LoadedSplit& text);

/// How many training ratings each user and then each item has.
struct RatingCounts {
  Index users = 0;
  const std::vector<std::int64_t>& counts;

  /// Adds the ratings whose users and items have none.
  void look_at(std::span<const SparseEntry> entries, Unseen& unseen) const;
  void look_at(const LoadedSplit& ratings, ExampleRange part, Unseen& unseen) const;
};

/// How many values the rows of a split have.
std::int64_t count_values(const LoadedSplit& split);

/// The standard deviation of each column over n rows, zeros included. Rows are added one by one, so that its bits
/// depend on their order alone. \param place_of the place of row 0 … n − 1 in memory
std::vector<double> column_deviations(const SparseRows& rows, std::int64_t n,
                                      const std::function<std::int64_t(std::int64_t)>& place_of);

// What views of folds need of sparse rows and ratings.

/// Copied rows of a sparse matrix with their targets.
class CopiedRows {
 public:
  /// \param places of the rows in `from`, in the order of the copy
  /// \param factors what the values of each column are multiplied by; empty: they are copied as they are
  CopiedRows(const LabelledRows& from, std::span<const std::int64_t> places, std::span<const double> factors = {});
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
  /// Copies, whose columns are divided by their deviations over the fold's own training rows.
  /// \param test rows that are scaled likewise; null: there are none
  /// \param scale what the stored values of each column were multiplied by in `whole` and `test`
  FoldedRows(const LoadedSplit& whole, const LoadedSplit* test, const Fold& fold, const std::vector<float>& scale);
  const LoadedSplit& training() const { return training_; }
  const LoadedSplit& validation() const { return validation_; }
  /// Of scaled rows, if there are any.
  const std::optional<LoadedSplit>& test() const { return test_; }
  /// What the stored values of each column are multiplied by; empty: they are not scaled.
  const std::vector<float>& scale() const { return scale_; }

 private:
  std::optional<CopiedRows> training_rows_, validation_rows_, test_rows_;
  LoadedSplit training_, validation_;
  std::optional<LoadedSplit> test_;
  std::vector<float> scale_;
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
