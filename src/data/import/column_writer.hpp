#pragma once

#include <cassert>
#include <span>
#include <string>
#include <vector>

#include "import/set_writer.hpp"

namespace unisono::data {

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
