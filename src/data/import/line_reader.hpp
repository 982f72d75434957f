#pragma once

#include <memory>
#include <string>
#include <vector>

#include "import/bytes.hpp"

namespace unisono::data {

/// The lines of a text, which end with \n or \r\n. Lines that hold nothing but blanks are left out.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteSource> source);

  /// False at the end.
  /// \throws DataError for a line that is too long to be of a table, or holds a zero byte
  bool next(std::string& line);
  /// Of the line that `next` gave last; from 1.
  std::int64_t number() const { return number_; }
  const std::string& name() const { return source_->name(); }

 private:
  bool next_raw(std::string& line);
  bool fill();

  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;
  std::int64_t number_ = 0;
};

}  // namespace unisono::data
