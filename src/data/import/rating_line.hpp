#pragma once

#include <array>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "import/rows.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

enum class RatingColumn { user, item, rating, time };
inline constexpr std::array<const char*, 4> kRatingColumns = {"user", "item", "rating", "time"};

/// How a file of ratings is written.
struct RatingsDialect {
  std::string delimiter;  ///< " ": any number of blanks
  bool header = false;
  std::size_t width = 3;                              ///< fields of a line
  std::size_t fields = 3;                             ///< that are used: 3, or 4 with the time
  std::array<std::size_t, 4> columns = {0, 1, 2, 3};  ///< by RatingColumn, from 0
  bool named = false;                                 ///< by the header line or the options, not by position
  std::string said;                                   ///< for people: "user: userId, item: column 2, …"
  TableForm form = {};
};

struct Rating {
  std::string_view user, item;  ///< in the line, or in its fields
  float value = 0;
  double time = 0;
};

/// The fields of a line.
struct RatingFields {
  std::vector<std::string_view> values;
  std::deque<std::string> unquoted;  ///< those that had quotes in them
};

/// Cuts a line at its delimiters; blanks around fields are left out, and quotes around whole fields, which may hold
/// delimiters and, twice, quotes. Quotes elsewhere are characters as all others.
void split_rating(std::string_view text, std::string_view delimiter, RatingFields& fields);

/// Looks at the first lines. The delimiter is one of "::", tab, comma, semicolon and bar that cuts all or most of them
/// into three or four fields with a number where the rating is, or into any number where the first line has the names
/// of user, item and rating; blanks where none of these does. A line of names is on top if it has such names, or words
/// where all lines below have numbers. \throws DataError where no delimiter does or several do, or names contradict the
/// order of columns; ConfigError for options that are none
RatingsDialect detect_ratings(const OpenText& open, const RatingsOptions& options);

/// \param line where the text is, for messages \param fields of this line, overwritten \throws DataError naming line
/// and column of what is wrong
Rating parse_rating(const LineReader& line, std::string_view text, const RatingsDialect& dialect, RatingFields& fields);

}  // namespace unisono::data
