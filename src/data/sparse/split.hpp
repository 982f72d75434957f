#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "set/agreement.hpp"
#include "sparse/rating_grid.hpp"
#include "sparse/schema.hpp"

namespace unisono::data {

/// A split in memory. What is visited together is a chunk: an epoch permutes chunks, and inside a chunk the order is
/// that of the memory.
struct LoadedSplit {
  ExampleSet set;
  std::vector<ExampleRange> chunks;
  std::vector<std::int64_t> chunk_examples;  ///< beside `chunks`: rows, entries or words
  std::int64_t examples = 0;                 ///< over all ranks
  std::shared_ptr<const RatingGrid> grid;    ///< of ratings that lie in blocks
};

/// How a group is put into memory.
struct Arrangement {
  bool shuffle = false;            ///< its examples change places at random once, before they are cut into chunks
  std::uint64_t seed = 0;          ///< of that
  double validation_fraction = 0;  ///< share of the training examples that validate instead
  std::uint64_t split_seed = 0;    ///< of the choice of these
  bool stratify = false;           ///< each class gives the same fraction, where there are classes
  Index grid = 0;                  ///< ratings: blocks along a side; 0: they stay in the file's order
  int rank = 0, ranks = 0;         ///< ratings: only this rank's rows of the grid are wanted; 0 ranks: all
};

/// A group of a file becomes one split, or a training and a validation split.
class GroupLoader {
 public:
  virtual ~GroupLoader() = default;
  /// Bytes of memory that it will fill.
  virtual std::size_t bytes() const = 0;
  /// Reads this rank's part of the group into memory that the ranks of a node may share.
  /// \throws DataError for values that are not as they should be
  virtual void read(const hdf5::File& file, std::byte* base, const NodeMemory& memory) = 0;
  /// What is in memory, once all ranks have read. \param held_out the validation examples instead of the others
  virtual LoadedSplit split(bool held_out) const = 0;
  /// Ratings: the mean of those that are trained on, where it was counted.
  virtual std::optional<double> mean_value() const { return {}; }
  /// Ratings: how many of those that are trained on each user has, and each item, where they were counted.
  virtual std::vector<std::int64_t> counts() const { return {}; }
};

std::unique_ptr<GroupLoader> load_rows(const SparseSchema& schema, const SparseGroup& group, const Arrangement& how);
std::unique_ptr<GroupLoader> load_ratings(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group,
                                          const Arrangement& how);
std::unique_ptr<GroupLoader> load_cooccurrences(const SparseSchema& schema, const SparseGroup& group);
std::unique_ptr<GroupLoader> load_text(const SparseSchema& schema, const SparseGroup& group);

/// How many of n examples validate: some and not all, where the fraction is not 0.
std::int64_t held_out_examples(std::int64_t n, double fraction);

/// Units [first, last) cut into chunks of so many, the last one of what is left.
void cut_evenly(ExampleRange units, std::int64_t at_once, LoadedSplit& split);

}  // namespace unisono::data
