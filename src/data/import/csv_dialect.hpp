#pragma once

#include <optional>
#include <string>
#include <vector>

#include "import/rows.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

/// A number as it is; a date, or a date and a time of the day, as seconds since 1970-01-01T00:00:00 (UTC). Nothing for
/// other texts.
std::optional<double> parse_time(const std::string& text);

/// How a table is written.
struct CsvDialect {
  char delimiter = ',';
  bool header = false;
  std::size_t columns = 0;
};

/// The fields of a line, without blanks around them. A field in quotes may hold the delimiter, and quotes twice. Blanks
/// as delimiters count as one where several follow each other. \param line where it is, for messages \throws DataError
/// naming line and column of a quote that is not closed, or closed inside of a field
void split_line(const LineReader& line, const std::string& text, char delimiter, std::vector<std::string>& fields);

/// The rows of a table, cut into fields. A line that has other than the dialect's number of them is a mistake.
/// \param none see RowFormat
RowFormat<std::vector<std::string>> csv_rows(const CsvDialect& dialect, std::string_view none = "rows");

/// A number with all of the text; nothing where it is no finite number.
std::optional<double> parse_number(std::string_view text);

/// Whether a field is written as a number, but is infinite, or beyond what a double can hold: "inf", "1e400".
bool is_unusable_number(std::string_view text);

/// Whether a field is a number that a float32 can hold.
bool fits_float(std::string_view field);

/// Whether a field says that its value is not known: it is empty, or "?", "NA", "N/A", "NaN", "null" in any case.
bool is_missing(std::string_view field);

/// Looks at the first lines: the delimiter is the one that cuts most of them into the most, equally many fields; a line
/// of names is on top if it holds a word in a column of numbers. \param delimiter "auto", one character, or "tab".
/// \throws DataError where that cannot be told
CsvDialect detect_dialect(const OpenText& open, const std::string& delimiter, Header header);

}  // namespace unisono::data
