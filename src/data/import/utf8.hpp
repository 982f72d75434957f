#pragma once

#include <clocale>
#include <string>
#include <string_view>

namespace unisono::data {

/// U+FEFF in UTF-8, with which some programs begin a file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Where the first byte stands that is no part of a UTF-8 character (Unicode 15, table 3-7); npos: there is none.
std::size_t find_invalid_utf8(std::string_view text);

/// Makes letters small, those of all alphabets, one character for one ("İ" and "ẞ" lose their dot and their length).
class Lowercase {
 public:
  /// \throws DataError where the system does not know Unicode's letters
  Lowercase();
  ~Lowercase();
  Lowercase(const Lowercase&) = delete;
  Lowercase& operator=(const Lowercase&) = delete;

  /// \pre valid UTF-8 \return valid until the next call
  std::string_view operator()(std::string_view text);

 private:
  locale_t locale_;
  std::string lowered_;
};

}  // namespace unisono::data
