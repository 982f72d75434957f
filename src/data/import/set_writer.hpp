#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
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

/// While it lives, a signal that ends the process (INT, TERM, HUP) removes a file first. Signals that are ignored, or
/// that somebody else heeds, stay as they are.
class RemovedBySignal {
 public:
  explicit RemovedBySignal(std::string path);
  ~RemovedBySignal();
  RemovedBySignal(const RemovedBySignal&) = delete;
  RemovedBySignal& operator=(const RemovedBySignal&) = delete;

 private:
  std::string path_;
  const char* before_;  ///< what a signal removed before
};

/// Makes a set beside its final place, and renames it when it is complete. What is not finished is removed.
class SetWriter {
 public:
  /// \throws OutputError where the file exists and may not be replaced, or cannot be made
  explicit SetWriter(const ImportOutput& output);
  ~SetWriter();
  SetWriter(const SetWriter&) = delete;
  SetWriter& operator=(const SetWriter&) = delete;

  hdf5::File& file() { return *file_; }
  const std::string& output() const { return output_.path; }
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
  std::optional<RemovedBySignal> removed_by_signal_;
  std::optional<hdf5::File> file_;
};

/// Rows of a chunk of a compressed dataset: about 256 KiB.
std::uint64_t chunk_rows_for(std::uint64_t row_bytes);

/// Shares of the rows that are not for training.
struct Shares {
  double validation = 0, test = 0;
  std::uint64_t seed = 1;  ///< of the choice
};

/// Of an import's options.
template <typename Options>
Shares shares_of(const Options& options) {
  return {options.validation_fraction, options.test_fraction, options.seed};
}

/// \param what is shared out: "rows" \param test_file where there is one, its rows are the test group
/// \throws ConfigError for shares that leave nothing for training, or exclude each other
void check_shares(const Shares& shares, const std::string& what, const std::string& test_file);

/// round(fraction · rows) \throws ConfigError where that is 0 and the fraction is not
std::int64_t share_of(std::int64_t rows, double fraction);

/// Which group a row belongs to: a random choice of exactly so many rows.
class RandomSplit {
 public:
  RandomSplit(std::int64_t rows, const Shares& shares);
  std::int64_t size(Split split) const;
  Split of(std::int64_t row) const;

 private:
  KeyedPermutation order_;
  std::int64_t test_, validation_;
};

/// Which group each row belongs to: chosen at random, or otherwise.
class RowDivision {
 public:
  Split of(std::int64_t row) const {
    return chosen_.empty() ? random_.of(row) : chosen_[static_cast<std::size_t>(row)];
  }
  std::int64_t size(Split split) const {
    return chosen_.empty() ? random_.size(split) : std::count(chosen_.begin(), chosen_.end(), split);
  }

 protected:
  /// At random, unless `choose` says otherwise.
  RowDivision(std::int64_t rows, const Shares& shares) : random_(rows, shares) {}
  void choose(std::vector<Split> of_rows) { chosen_ = std::move(of_rows); }

 private:
  RandomSplit random_;
  std::vector<Split> chosen_;
};

/// How many examples of each group have each class.
class ClassCounts {
 public:
  explicit ClassCounts(std::size_t classes) {
    for (auto& counts : counts_) counts.resize(classes);
  }
  void add(Split split, std::int64_t label) {
    if (label >= 0) ++counts_[static_cast<std::size_t>(split)][static_cast<std::size_t>(label)];
  }
  /// On classes that the training group does not have. \param path of the set \param unit "row", "example"
  std::vector<std::string> warnings(const std::string& path, const std::vector<std::string>& names,
                                    const std::string& unit) const;
  /// Likewise where an example may have several labels, of these names.
  std::vector<std::string> untrained_labels(const std::string& path, const std::vector<std::string>& names,
                                            const std::string& unit) const;

 private:
  std::array<std::vector<std::int64_t>, 3> counts_;
};

/// Reads a dataset of one axis from its beginning, some hundred thousand values at a time.
template <typename T>
class ColumnReader {
 public:
  ColumnReader(const hdf5::File& file, const std::string& dataset)
      : file_(file), dataset_(dataset), size_(file.shape(dataset).rows()) {}

  std::uint64_t size() const { return size_; }
  /// False at the end.
  bool next(T& value) {
    if (at_ == buffer_.size() && !refill()) return false;
    value = buffer_[at_++];
    return true;
  }

 private:
  static constexpr std::uint64_t kAtATime = 1 << 18;

  bool refill() {
    buffer_.resize(static_cast<std::size_t>(std::min(kAtATime, size_ - read_)));
    file_.read_rows(dataset_, read_, buffer_.size(), buffer_.data());
    read_ += buffer_.size();
    at_ = 0;
    return !buffer_.empty();
  }

  const hdf5::File& file_;
  std::string dataset_;
  std::uint64_t size_, read_ = 0;
  std::vector<T> buffer_;
  std::size_t at_ = 0;
};

/// A dataset of one axis and known length that is written from its beginning, some ten thousand values at a time.
template <typename T>
class ColumnWriter {
 public:
  /// Makes the dataset.
  ColumnWriter(SetWriter& writer, const std::string& dataset, std::uint64_t length)
      : file_(&writer.file()), dataset_(dataset), length_(length) {
    writer.create_column<T>(dataset, length);
    buffer_.reserve(kAtATime);
  }

  void add(T value) {
    buffer_.push_back(value);
    if (buffer_.size() == kAtATime) flush();
  }
  void add(std::span<const T> values) {
    for (const T value : values) add(value);
  }
  /// \pre as many values were added as the dataset has
  void finish() {
    flush();
    assert(written_ == length_);
  }

 private:
  static constexpr std::size_t kAtATime = 1 << 16;

  void flush() {
    file_->write_rows(dataset_, written_, buffer_.size(), buffer_.data());
    written_ += buffer_.size();
    buffer_.clear();
  }

  hdf5::File* file_;
  std::string dataset_;
  std::uint64_t length_, written_ = 0;
  std::vector<T> buffer_;
};

}  // namespace unisono::data
