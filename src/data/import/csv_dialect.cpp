#include "import/csv_dialect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>

#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"

namespace unisono::data {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Reads a field in quotes; `at` is behind the first, and then behind the last. False where there is none.
bool read_quoted(const std::string& text, std::size_t& at, std::string& field) {
  for (field.clear(); at < text.size(); ++at) {
    if (text[at] != '"') {
      field += text[at];
    } else if (at + 1 < text.size() && text[at + 1] == '"') {
      field += text[at++];
    } else {
      ++at;
      return true;
    }
  }
  return false;
}

[[noreturn]] void fail_quote(const LineReader& line, std::size_t column, const char* what) {
  line.fail(fmt::format("column {}: {}", column, what));
}

/// Fields of a sampled line; none where it cannot be cut. What is wrong with it is said when it is read for good.
std::vector<std::string> try_split(const LineReader& reader, const std::string& line, char delimiter) {
  std::vector<std::string> fields;
  try {
    split_line(reader, line, delimiter, fields);
  } catch (const DataError&) {
    fields.clear();
  }
  return fields;
}

/// The first lines, cut at the ends that stand outside of quotes.
std::vector<std::string> sample_of(const OpenText& open, char delimiter) {
  const auto lines = open();
  lines->join_quoted(delimiter);
  return first_lines(*lines, "a table has at least one row");
}

/// How many fields the first line has, if most lines have as many; 0 otherwise.
std::size_t common_fields(const LineReader& reader, const std::vector<std::string>& sample, char delimiter) {
  const std::size_t common = try_split(reader, sample[0], delimiter).size();
  const auto alike = std::count_if(sample.begin(), sample.end(), [&](const std::string& line) {
    return try_split(reader, line, delimiter).size() == common;
  });
  return 2 * static_cast<std::size_t>(alike) > sample.size() ? common : 0;
}

char detect_delimiter(const OpenText& open) {
  const auto reader = open();
  char best = ',';
  std::size_t most = 1;
  for (const char delimiter : {',', ';', '\t', '|', ' '}) {
    const std::size_t fields = common_fields(*reader, sample_of(open, delimiter), delimiter);
    if (fields > most) {
      most = fields;
      best = delimiter;
    }
  }
  return best;  // a comma where there is but one column
}

/// Whether the first line holds a word where all lines below hold numbers.
bool detect_header(const LineReader& reader, const std::vector<std::string>& sample, char delimiter) {
  const std::vector<std::string> names = try_split(reader, sample[0], delimiter);
  std::vector<bool> numbers(names.size(), sample.size() > 1);
  bool any_numbers = false;
  for (std::size_t i = 1; i < sample.size(); ++i) {
    const std::vector<std::string> fields = try_split(reader, sample[i], delimiter);
    for (std::size_t c = 0; c < numbers.size(); ++c) {
      if (c < fields.size() && !(parse_number(fields[c]) || is_missing(fields[c]))) numbers[c] = false;
    }
  }
  for (std::size_t c = 0; c < names.size(); ++c) {
    any_numbers = any_numbers || parse_number(names[c]);
    if (numbers[c] && !parse_number(names[c]) && !is_missing(names[c])) return true;
  }
  if (any_numbers) return false;
  throw DataError(fmt::format(
      "{}: cannot tell whether the first line holds names or values; set --header yes or --header no", reader.name()));
}

char parse_delimiter(const std::string& delimiter) {
  if (delimiter == "tab" || delimiter == "\\t") return '\t';
  if (delimiter.size() == 1 && delimiter[0] != '"' && delimiter[0] != '\n' && delimiter[0] != '\r') return delimiter[0];
  throw ConfigError(fmt::format("--delimiter '{}': it must be one character, 'tab' or 'auto'", delimiter));
}

}  // namespace

std::optional<double> parse_time(const std::string& text) {
  if (const auto number = parse_number(text)) return number;
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, read = 0;
  double second = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &read) != 3) return std::nullopt;
  const std::string rest = text.substr(static_cast<std::size_t>(read));
  if (!rest.empty()) {
    char separator = 0;
    int end = 0;
    const int fields = std::sscanf(rest.c_str(), "%c%2d:%2d%n:%lf%n", &separator, &hour, &minute, &end, &second, &end);
    const std::string zone = fields >= 3 ? rest.substr(static_cast<std::size_t>(end)) : "?";
    if ((separator != 'T' && separator != ' ') || !(zone.empty() || zone == "Z")) return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || !(second >= 0 && second < 61)) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + hour * 3600 + minute * 60 + second;
}

void split_line(const LineReader& line, const std::string& text, char delimiter, std::vector<std::string>& fields) {
  fields.clear();
  std::string quoted;
  const auto skip_blanks = [&](std::size_t at) {
    while (at < text.size() && is_blank(text[at]) && (text[at] != delimiter || delimiter == ' ')) ++at;
    return at;
  };
  for (std::size_t at = skip_blanks(0);; at = skip_blanks(at + 1)) {
    if (at < text.size() && text[at] == '"') {
      if (!read_quoted(text, ++at, quoted)) fail_quote(line, fields.size() + 1, "a quote is opened but not closed");
      if (delimiter != ' ') at = skip_blanks(at);
      if (at < text.size() && text[at] != delimiter)
        fail_quote(line, fields.size() + 1, "text follows a closing quote");
      fields.push_back(quoted);
    } else {
      const std::size_t end = std::min(text.find(delimiter, at), text.size());
      fields.emplace_back(trim(std::string_view(text).substr(at, end - at)));
      at = end;
    }
    if (at >= text.size()) return;
    if (delimiter == ' ' && skip_blanks(at) == text.size()) return;
  }
}

std::optional<double> parse_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_unusable_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return false;
  return error == std::errc::result_out_of_range || (error == std::errc{} && !std::isfinite(value));
}

bool fits_float(std::string_view field) {
  const auto number = parse_number(field);
  return number && std::abs(*number) <= double{std::numeric_limits<float>::max()};
}

bool is_missing(std::string_view field) {
  std::string lower(field);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.empty() || lower == "?" || lower == "na" || lower == "n/a" || lower == "nan" || lower == "null";
}

RowFormat<std::vector<std::string>> csv_rows(const CsvDialect& dialect, std::string_view none) {
  const auto parse = [dialect](const LineReader& line, const std::string& text, std::vector<std::string>& fields) {
    split_line(line, text, dialect.delimiter, fields);
    if (fields.size() == dialect.columns) return true;
    line.fail(fmt::format("has {}, but the first line has {}", count_of(std::ssize(fields), "field"), dialect.columns));
  };
  if (!dialect.header) return {.none = none, .parse = parse, .quoted = dialect.delimiter};
  const auto check_names = [parse](const LineReader& line, const std::string& text) {
    std::vector<std::string> names;
    parse(line, text, names);
  };
  return {.none = none, .parse = parse, .names = check_names, .quoted = dialect.delimiter};
}

CsvDialect detect_dialect(const OpenText& open, const std::string& delimiter, Header header) {
  CsvDialect dialect;
  dialect.delimiter = delimiter == "auto" ? detect_delimiter(open) : parse_delimiter(delimiter);
  const std::vector<std::string> sample = sample_of(open, dialect.delimiter);
  const auto reader = open();
  dialect.header =
      header == Header::automatic ? detect_header(*reader, sample, dialect.delimiter) : header == Header::yes;
  std::vector<std::string> fields;
  split_line(*reader, sample[0], dialect.delimiter, fields);
  dialect.columns = fields.size();
  return dialect;
}

}  // namespace unisono::data
