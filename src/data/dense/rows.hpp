#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dense/schema.hpp"
#include "order/slice.hpp"

namespace unisono::data {

/// One example in memory, before conversion to features of a batch.
struct RawExample {
  const std::byte* features = nullptr;
  const float* targets = nullptr;  ///< null: none
  std::int32_t label = 0;
  float weight = 1;
  std::uint64_t row = 0;  ///< in its group
};

/// Rows [first, last) of a group in one piece of memory, which it does not own: all features, then all targets, labels
/// and weights; each of these parts begins at a multiple of kAlignmentBytes.
class RowBlock {
 public:
  RowBlock() = default;
  /// \param memory of bytes(group, rows.size()) bytes
  RowBlock(const GroupSchema& group, Range rows, std::byte* memory);
  /// Bytes that so many rows need.
  static std::size_t bytes(const GroupSchema& group, std::int64_t rows);

  /// The same targets, labels and weights with other features. \param features of a group with these rows, as floats
  RowBlock with_features(float* features, Index size) const;

  Range rows() const { return rows_; }
  /// \pre rows().first ≤ row < rows().last
  RawExample example(std::int64_t row) const;
  const std::byte* features(std::int64_t row) const { return features_ + offset(row) * feature_bytes_; }
  /// Those of this row and, behind them, of the rows that follow. \pre the group has them
  const std::int32_t* labels(std::int64_t row) const { return labels_ + offset(row); }
  const float* weights(std::int64_t row) const { return weights_ + offset(row); }

  /// Reads some of these rows from the file, checks and stores them.
  /// \throws DataError naming the first example that has a feature or target that is not finite, or a label that is
  ///         negative or not whole
  void read(const hdf5::File& file, const GroupSchema& group, Range rows);

 private:
  std::size_t offset(std::int64_t row) const { return static_cast<std::size_t>(row - rows_.first); }
  void read_features(const hdf5::File& file, const GroupSchema& group, Range rows);

  Range rows_;
  std::byte* features_ = nullptr;
  float* targets_ = nullptr;        ///< null: none
  std::int32_t* labels_ = nullptr;  ///< null: none
  float* weights_ = nullptr;        ///< null: all 1
  std::size_t feature_bytes_ = 0;   ///< of one example
  std::size_t target_size_ = 0;
};

/// A RowBlock that owns its memory.
class OwnedRows {
 public:
  OwnedRows(const GroupSchema& group, Range rows);
  RowBlock block;

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kAlignmentBytes}); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

/// How many rows to read at a time: about 1 MiB, in whole chunks of the file if it is chunked.
std::int64_t block_rows(const GroupSchema& group);

}  // namespace unisono::data
