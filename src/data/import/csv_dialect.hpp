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

/// A day, and maybe a time of it.
struct Date {
  int year = 0, month = 0, weekday = 0;  ///< weekday: Monday is 1
  double days = 0;                       ///< since 1970-01-01
  double hour = 0;                       ///< of the day: 12.5 is 12:30
  bool has_time = false;
};

/// Years have four digits. Orders other than ymd have "/", "." or "-" between the numbers. Nothing for other texts, and
/// for days that do not exist.
std::optional<Date> parse_date(const std::string& text, DateOrder order);

/// How a table is written.
struct CsvDialect {
  char delimiter = ',';
  bool header = false;
  std::size_t columns = 0;
  TableForm form = {};
  // What further files are compared with: those of the table, and the one of test rows.
  std::string file = {};                   ///< the table's first one; empty: there is but one
  std::vector<std::string> names = {};     ///< of its columns
  bool empty_rows = false;                 ///< whether rows without any text are rows, and are not left out
  std::optional<std::size_t> needed = {};  ///< a column; rows without a value in it are left out
};

/// Rows that were left out.
struct LeftOut {
  std::int64_t empty = 0, unlabelled = 0;
};

/// The fields of a line, without blanks around them. A field in quotes may hold the delimiter, and quotes twice. A
/// blank as delimiter stands for any number of blanks and tabs. \param line where it is, for messages \throws DataError
/// naming line and column of a quote that is not closed, or closed inside of a field
void split_line(const LineReader& line, const std::string& text, char delimiter, std::vector<std::string>& fields);

/// The rows of a table, cut into fields. A line that has other than the dialect's number of them is a mistake.
/// \param none see RowFormat \param left_out is counted up; it outlives the format. Null: nobody counts
RowFormat<std::vector<std::string>> csv_rows(const CsvDialect& dialect, std::string_view none = "rows",
                                             LeftOut* left_out = nullptr);

/// A number with all of the text, with a decimal point; nothing where it is no finite number.
std::optional<double> parse_number(std::string_view text);

/// Whether a field is written as a number, but is infinite, or beyond what a double can hold: "inf", "1e400".
bool is_unusable_number(std::string_view text);

/// Whether a field is a number that a float32 can hold.
bool fits_float(std::string_view field);

/// Whether a field says that its value is not known: it is empty, or one of the form's `missing_values`.
bool is_missing(std::string_view field, const TableForm& form = {});

/// A number in the form's way of writing, as `parse_number` reads it: "1.234,5" as "1234.5". Nothing for other texts,
/// and for numbers that are written in another way.
std::optional<std::string> plain_number(std::string_view field, const TableForm& form);

/// What is to be done about a text that people read as a number, but that is none in this form: it has a unit, or
/// commas, or signs between its digits. Empty: people read it as text.
std::string advice_on_number(const std::string& field, const TableForm& form);

/// \throws ConfigError for a form that numbers cannot have
void check_form(const TableForm& form);

/// \throws ConfigError for an option that is neither "tab" nor one character
char parse_delimiter(const std::string& delimiter);

/// Looks at the first hundred rows. The delimiter is the comma, semicolon, tab or bar that cuts all of them into
/// equally many fields, or most of them where none does; blanks where none of these does. A line of names is on top if
/// it holds words in columns of numbers. \throws DataError where several delimiters would do, or the first line could
/// hold names and values; ConfigError for a form that none can have
CsvDialect detect_dialect(const OpenText& open, const TableForm& form, Header header);

}  // namespace unisono::data
