#include "import/rating_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "import/csv_dialect.hpp"
#include "import/utf8.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"

namespace unisono::data {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::array<const char*, 4> kRatingFields = {"user", "item", "rating", "time"};

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Fields of most of the lines, if they are a rating's; else 0.
std::size_t common_fields(const std::vector<std::string>& sample, std::string_view delimiter) {
  std::array<std::size_t, std::tuple_size_v<RatingFields> + 1> lines{};
  RatingFields fields;
  for (const std::string& line : sample) ++lines[split_rating(line, delimiter, fields)];
  for (const std::size_t count : {3, 4}) {
    if (2 * lines[count] > sample.size()) return count;
  }
  return 0;
}

std::string detect_delimiter(const std::string& name, const std::vector<std::string>& sample) {
  for (const char* delimiter : {"::", "\t", ",", ";", "|", " "}) {
    if (common_fields(sample, delimiter) > 0) return delimiter;
  }
  throw DataError(fmt::format(
      "{}: no delimiter found: neither '::' nor tabs, commas, semicolons, bars or spaces split most of the first lines "
      "into user, item, rating (and time); set --delimiter; if there are no ratings, add a column of ones",
      name));
}

std::string parse_rating_delimiter(const std::string& delimiter) {
  if (delimiter == "tab" || delimiter == "\\t") return "\t";
  if (delimiter == "::" || (delimiter.size() == 1 && delimiter != "\n" && delimiter != "\r")) return delimiter;
  throw ConfigError(fmt::format("--delimiter '{}': it must be one character, '::', 'tab' or 'auto'", delimiter));
}

/// Whether the first line has a word wherever all lines below have numbers, at least in one place.
bool detect_header(const std::vector<std::string>& sample, std::string_view delimiter) {
  RatingFields names, fields;
  const std::size_t count = split_rating(sample[0], delimiter, names);
  std::vector<bool> numbers(count, sample.size() > 1);
  for (std::size_t i = 1; i < sample.size(); ++i) {
    const std::size_t here = split_rating(sample[i], delimiter, fields);
    for (std::size_t c = 0; c < count; ++c) numbers[c] = numbers[c] && c < here && parse_number(fields[c]);
  }
  bool words = false;
  for (std::size_t c = 0; c < count; ++c) {
    if (numbers[c] && parse_number(names[c])) return false;
    words = words || (numbers[c] && !is_missing(names[c]));
  }
  return words;
}

[[noreturn]] void fail_in_column(const LineReader& line, std::size_t column, const std::string& what) {
  line.fail(fmt::format("column {} ({}): {}", column + 1, kRatingFields[column], what));
}

void check_id(const LineReader& line, std::size_t column, std::string_view id) {
  if (id.empty()) fail_in_column(line, column, "is empty");
  if (find_invalid_utf8(id) != std::string_view::npos)
    fail_in_column(line, column, "is not UTF-8; convert the file, for example with 'iconv -f latin1 -t utf-8'");
}

}  // namespace

std::size_t split_rating(std::string_view text, std::string_view delimiter, RatingFields& fields) {
  const bool blanks = delimiter == " ";
  std::size_t count = 0;
  for (text = without_blanks(text); count < fields.size(); ++count) {
    const std::size_t end = blanks ? text.find_first_of(kBlanks) : text.find(delimiter);
    fields[count] = without_blanks(text.substr(0, end));
    if (end == std::string_view::npos) return count + 1;
    text.remove_prefix(end + delimiter.size());
    if (blanks) text = without_blanks(text);
  }
  return count;
}

RatingsDialect detect_ratings(const OpenText& open, const std::string& delimiter, Header header) {
  const auto lines = open();
  RatingsDialect dialect;
  if (delimiter != "auto") dialect.delimiter = parse_rating_delimiter(delimiter);
  const std::vector<std::string> sample = first_lines(*lines, "a file of ratings has at least one line");
  if (delimiter == "auto") dialect.delimiter = detect_delimiter(lines->name(), sample);
  dialect.header = header == Header::automatic ? detect_header(sample, dialect.delimiter) : header == Header::yes;
  RatingFields fields;
  dialect.fields = std::clamp<std::size_t>(split_rating(sample[0], dialect.delimiter, fields), 3, 4);
  return dialect;
}

Rating parse_rating(const LineReader& line, std::string_view text, const RatingsDialect& dialect) {
  RatingFields fields;
  const std::size_t count = split_rating(text, dialect.delimiter, fields);
  if (count != dialect.fields) {
    const std::size_t at =
        count < dialect.fields ? text.size() : static_cast<std::size_t>(fields[dialect.fields].data() - text.data());
    line.fail(at + 1,
              fmt::format("has {}, but {} are expected: user, item, rating{}",
                          count > 4 ? "more than 4 fields" : count_of(static_cast<std::int64_t>(count), "field"),
                          dialect.fields, dialect.fields == 4 ? ", time" : ""));
  }
  Rating rating{.user = fields[0], .item = fields[1]};
  check_id(line, 0, rating.user);
  check_id(line, 1, rating.item);
  const auto value = parse_number(fields[2]);
  if (!value || std::abs(*value) > double{std::numeric_limits<float>::max()})
    fail_in_column(line, 2, fmt::format("'{}' is not a number in the range of float32", fields[2]));
  rating.value = static_cast<float>(*value);
  if (count < 4) return rating;
  const auto time = parse_number(fields[3]);
  if (!time) fail_in_column(line, 3, fmt::format("'{}' is not a number; write times as seconds", fields[3]));
  rating.time = *time;
  return rating;
}

}  // namespace unisono::data
