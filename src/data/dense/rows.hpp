#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "dense/plan.hpp"
#include "dense/schema.hpp"
#include "order/schedule.hpp"
#include "set/agreement.hpp"
#include "set/common_answer.hpp"

namespace unisono::data {

/// One example in memory, before conversion to features of a batch.
struct RawExample {
  const std::byte* features = nullptr;  ///< as the set stores them: numbers, or the bytes of a picture
  std::size_t feature_bytes = 0;
  const float* targets = nullptr;  ///< null: none
  std::int32_t label = 0;
  float weight = 1;
  std::uint64_t row = 0;  ///< in its group
};

/// The bytes of an example that is a picture.
inline std::span<const std::uint8_t> picture_of(const RawExample& example) {
  return {reinterpret_cast<const std::uint8_t*>(example.features), example.feature_bytes};
}

/// Where the features of rows lie among those of all rows of a group, in bytes. Reads it from the file where they are
/// pictures. \throws DataError
Range feature_range(const hdf5::File& file, const GroupSchema& group, Range rows);

/// Rows [first, last) of a group in one piece of memory, which it does not own: all features, then all targets, labels
/// and weights, and where pictures begin; each of these parts begins at a multiple of kAlignmentBytes.
class RowBlock {
 public:
  RowBlock() = default;
  /// \param features their feature_range \param memory of bytes(group, rows, features) bytes
  RowBlock(const GroupSchema& group, Range rows, Range features, std::byte* memory);
  /// Bytes that these rows need.
  static std::size_t bytes(const GroupSchema& group, Range rows, Range features);
  /// Bytes that all rows of a group need.
  static std::size_t bytes(const GroupSchema& group);

  /// The same targets, labels and weights with other features. \param features of a group with these rows, as floats
  RowBlock with_features(float* features, Index size) const;

  Range rows() const { return rows_; }
  /// \pre rows().first ≤ row < rows().last
  RawExample example(std::int64_t row) const;
  const std::byte* features(std::int64_t row) const {
    return features_ + (begins_ != nullptr ? begins_[offset(row)] : offset(row) * feature_bytes_);
  }
  /// Those of this row and, behind them, of the rows that follow. \pre the group has them
  const std::int32_t* labels(std::int64_t row) const { return labels_ + offset(row); }
  const float* weights(std::int64_t row) const { return weights_ + offset(row); }

  /// Adds the labels or targets of rows. \return false: two differ \pre the group has them
  bool share_answer(Range rows, AnswerComparison& answers) const;

  /// Reads some of these rows from the file, checks and stores them.
  /// \throws DataError naming the first example that has a feature or target that is not finite, or a label that is
  ///         negative or not whole
  void read(const hdf5::File& file, const GroupSchema& group, Range rows);

 private:
  std::size_t offset(std::int64_t row) const { return static_cast<std::size_t>(row - rows_.first); }
  void read_features(const hdf5::File& file, const GroupSchema& group, Range rows);

  Range rows_;
  std::byte* features_ = nullptr;
  float* targets_ = nullptr;         ///< null: none
  std::int32_t* labels_ = nullptr;   ///< null: none
  float* weights_ = nullptr;         ///< null: all 1
  std::uint64_t* begins_ = nullptr;  ///< [rows + 1] of pictures, behind features_; null: examples are none
  std::int64_t first_byte_ = 0;      ///< of the features, among those of all rows of the group
  std::size_t feature_bytes_ = 0;    ///< of one example, unless examples are pictures
  std::size_t target_size_ = 0;
};

/// Adds the labels or targets of a file's rows, and reads no more of them than are needed. \return false: two differ
/// \throws DataError
bool share_answer(const hdf5::File& file, const GroupSchema& group, Range rows, AnswerComparison& answers);

/// Rows of a file, read into memory of their own.
class OwnedBlock {
 public:
  /// \throws DataError as RowBlock::read
  OwnedBlock(const hdf5::File& file, const GroupSchema& group, Range rows);
  RowBlock block;

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kAlignmentBytes}); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

/// How many rows to read at a time: about 1 MiB, in whole chunks of the file if it is chunked.
std::int64_t block_rows(const GroupSchema& group);

/// Blocks of all rows of a set's groups, by the Split after which a group is named.
using GroupBlocks = std::array<RowBlock, 3>;

/// The groups of a resident set, in memory that the ranks of a node share.
class SharedBlocks {
 public:
  /// Allocates memory for all groups. Collective over the node.
  SharedBlocks(const SetPlan& plan, const NodeShare& share);

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
class RowsOnDemand {
 public:
  /// A block that holds these rows of the group; valid as long as this object.
  const RowBlock& block(const hdf5::File& file, const GroupSchema& group, Range rows);

 private:
  struct ResidentGroup {
    const GroupSchema* group;
    OwnedBlock rows;
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

/// Gives stored features as numbers: those of a picture are its image.
class StoredNumbers {
 public:
  explicit StoredNumbers(const GroupSchema& group);
  /// [features] Valid until the next call. \throws DataError for a damaged picture
  const std::byte* of(const RawExample& example);
  /// The image that is made of a part of a picture, or of an image of bytes, which `choose` says. [C, H, W] Valid until
  /// the next call.
  const std::byte* of_part(const RawExample& example,
                           const std::function<Box(std::int64_t height, std::int64_t width)>& choose);
  /// The image that was made last, of a picture or a part; it may be changed.
  std::span<std::uint8_t> image() { return image_; }

 private:
  FeatureShape shape_;
  std::shared_ptr<const EncodedPictures> pictures_;
  PictureReader reader_;
  std::vector<std::uint8_t> image_;  ///< [C, H, W] of a picture, or of a part
};

/// Where a group's features are: in a file, or all of them in memory.
using StoredRows = std::variant<const hdf5::File*, const RowBlock*>;

/// Computes the normalisation from a set's training examples; the ranks of a node divide the work. Collective.
/// Of pictures, at most 4,096 are decoded, evenly spaced. \param training the rows of the group that has the training
/// examples \param threads of this rank
Normalization training_statistics(NormalizationKind kind, const SetPlan& plan, StoredRows training,
                                  const NodeShare& share, int threads, Agreement& agreement);

/// Sums over the features of some rows, in double, for means and variances. Values are shifted by those of one example
/// first, so that a large mean does not cancel a small deviation.
class FeatureSums {
 public:
  /// \param shift [features]; the same for all sums that will be added up
  FeatureSums(const GroupSchema& group, std::vector<float> shift);

  void add(const RawExample& example);
  /// [2 · features]: Σ (x − shift), then Σ (x − shift)²
  std::span<const double> sums() const { return sums_; }
  void clear();

 private:
  StoredNumbers numbers_;
  Storage storage_;
  float scale_, offset_;
  std::vector<float> shift_, values_;
  std::vector<double> sums_;
};

/// Into how many pieces the training set is divided for the statistics. The pieces' sums are always added in the same
/// order, so the result does not depend on the number of ranks.
std::int64_t statistics_pieces(const GroupSchema& group, std::int64_t examples);

/// Mean and 1/deviation from the sums of all pieces: over all values ("global"), per channel or per feature. A constant
/// gets the factor 1.
/// \param pieces FeatureSums::sums() of all pieces, [pieces · 2 · features]
Normalization make_normalization(NormalizationKind kind, const GroupSchema& group, std::int64_t examples,
                                 const std::vector<float>& shift, std::span<const double> pieces);

}  // namespace unisono::data
