#pragma once

#include <algorithm>
#include <cassert>
#include <span>
#include <string>
#include <vector>

#include "import/set_writer.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {

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
