#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "order/schedule.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

/// What an importer writes to until it is done: OUTPUT.unfinished-PROCESS@HOST.
std::string unfinished_path(const std::string& output);

/// Removes what this user's importers on this host left in the output's folder when they were killed. Whatever another
/// user, another host or a living process may be writing stays.
void remove_abandoned(const std::string& output);

/// Makes a set beside its final place, and renames it when it is complete. What is not finished is removed.
class SetWriter {
 public:
  /// \throws OutputError where the file exists and may not be replaced, or cannot be made
  explicit SetWriter(const ImportOutput& output);
  ~SetWriter();
  SetWriter(const SetWriter&) = delete;
  SetWriter& operator=(const SetWriter&) = delete;

  hdf5::File& file() { return *file_; }
  /// Makes a group's features of type T. \param shape of an example
  template <typename T>
  void create_features(const std::string& group, std::int64_t examples, const std::vector<std::int64_t>& shape);
  template <typename T>
  void write_features(const std::string& group, std::int64_t first, std::int64_t count, const T* values);
  /// Makes a dataset of `length` values of type T.
  template <typename T>
  void create_column(const std::string& dataset, std::uint64_t length);
  /// Bytes are grey values: 0 to 255 stand for 0 to 1.
  void scale_to_one(const std::string& group);

  /// Everything is on the disk and at its place when it returns.
  void finish();

 private:
  ImportOutput output_;
  std::string unfinished_;
  std::optional<hdf5::File> file_;
};

/// Rows of a chunk of a compressed dataset: about 256 KiB.
std::uint64_t chunk_rows_for(std::uint64_t row_bytes);

/// Shares of the rows that are not for training.
struct Shares {
  double validation = 0, test = 0;
  std::uint64_t seed = 1;  ///< of the choice
};

/// \param what is shared out: "rows" \param test_file where there is one, its rows are the test group
/// \throws ConfigError for shares that leave nothing for training, or exclude each other
void check_shares(const Shares& shares, const std::string& what, const std::string& test_file);

/// round(fraction · rows)
std::int64_t share_of(std::int64_t rows, double fraction);

/// Which group a row belongs to: a random choice of exactly so many rows.
class RowSplit {
 public:
  RowSplit(std::int64_t rows, const Shares& shares);
  std::int64_t size(Split split) const;
  Split of(std::int64_t row) const;

 private:
  KeyedPermutation order_;
  std::int64_t test_, validation_;
};

}  // namespace unisono::data
