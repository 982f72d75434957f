#pragma once

#include <algorithm>
#include <string>
#include <vector>

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

}  // namespace unisono::data
