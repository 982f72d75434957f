#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "order/keyed_permutation.hpp"
#include "set/agreement.hpp"
#include "sparse/rating_grid.hpp"
#include "sparse/schema.hpp"

namespace unisono::data {

/// A split in memory, divided into chunks of consecutive rows, entries or sentences. An epoch's order permutes the
/// chunks; inside a chunk the order is that in memory.
struct LoadedSplit {
  ExampleSet set;
  std::vector<ExampleRange> chunks;
  std::vector<std::int64_t> chunk_examples;  ///< parallel to `chunks`: its rows, entries or words
  std::int64_t examples = 0;                 ///< over all ranks
  std::shared_ptr<const RatingGrid> grid;    ///< ratings sorted into blocks; else null
  KeyedPermutation places;                   ///< sparse rows: where each row of the file lies; size 0: in its order
};

/// How a group is arranged in memory.
struct Arrangement {
  bool shuffle = false;            ///< shuffle its examples once, before they are cut into chunks
  std::uint64_t seed = 0;          ///< of this shuffle
  double validation_fraction = 0;  ///< share of the training examples that is held out for validation
  std::uint64_t split_seed = 0;    ///< of this split
  bool stratify = false;           ///< hold out the same fraction of each class, if there are classes
  const Fold* fold = nullptr;      ///< ratings: which are for training and for validation; null: as above
  Index grid = 0;                  ///< ratings: side of the RatingGrid; 0: no grid, the file's order
  int rank = 0, ranks = 0;         ///< ratings: load only this rank's rows of the grid; 0 ranks: all
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

}  // namespace unisono::data
