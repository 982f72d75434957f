#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "import/bytes.hpp"

namespace unisono::data {

/// The words of a UTF-8 text: what stands between blanks (space, tab, carriage return, form feed, vertical tab) and the
/// ends of lines. Memory does not depend on the length of lines.
class WordReader {
 public:
  enum class Token { word, line_end, end };

  explicit WordReader(std::unique_ptr<ByteSource> source);

  /// \throws DataError naming line and byte of what is no UTF-8, a zero byte, or a word that is too long to be one
  Token next();
  /// The word that `next` came to; valid until it is called again.
  std::string_view word() const { return word_; }

 private:
  bool fill();
  std::size_t find_end(bool& is_plain);
  void check_word() const;
  [[noreturn]] void fail(std::size_t at, const std::string& what) const;

  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;  ///< of the buffer: what was not read yet
  std::uint64_t before_ = 0;      ///< bytes of the text before the buffer's first
  std::uint64_t line_begin_ = 0;  ///< bytes of the text before the line's first
  std::int64_t line_ = 1;
  std::string_view word_;
};

}  // namespace unisono::data
