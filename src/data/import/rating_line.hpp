#pragma once

#include <array>
#include <string>
#include <string_view>

#include "import/rows.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

/// How a file of ratings is written.
struct RatingsDialect {
  std::string delimiter;  ///< " ": any number of blanks
  bool header = false;
  std::size_t fields = 3;  ///< 3, or 4 with the time
};

struct Rating {
  std::string_view user, item;  ///< in the line
  float value = 0;
  double time = 0;
};

/// The most fields that are looked at: one more than a rating has.
using RatingFields = std::array<std::string_view, 5>;

/// Cuts a line at its delimiters; blanks around fields are left out. \return how many fields there are, at most 5
std::size_t split_rating(std::string_view text, std::string_view delimiter, RatingFields& fields);

/// Looks at the first lines: the delimiter is the first one of "::", tab, comma, semicolon, bar and blank that cuts
/// most of them into three or four fields; a line of names is on top if it has words where all lines below have
/// numbers. \param delimiter auto, tab, or what it is \throws DataError where no delimiter
/// does, ConfigError for options that are none
RatingsDialect detect_ratings(const OpenText& open, const std::string& delimiter, Header header);

/// \param line where the text is, for messages \throws DataError naming line and column of what is wrong
Rating parse_rating(const LineReader& line, std::string_view text, const RatingsDialect& dialect);

}  // namespace unisono::data
