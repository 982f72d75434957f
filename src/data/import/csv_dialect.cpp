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

namespace unisono::data {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

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

/// Numbers of at least one group: "1.234", "12.345.678". \return their digits; `at` is behind them then
std::string take_whole_part(std::string_view text, std::string_view thousands, std::size_t& at) {
  const auto digits_from = [&](std::size_t from) {
    return std::min(text.find_first_not_of("0123456789", from), text.size()) - from;
  };
  std::size_t count = digits_from(at);
  std::string digits(text.substr(at, count));
  at += count;
  if (thousands.empty() || count > 3 || count == 0) return digits;
  while (text.substr(at).starts_with(thousands) && digits_from(at + thousands.size()) == 3) {
    at += thousands.size();
    digits += text.substr(at, 3);
    at += 3;
  }
  return digits;
}

std::string separator_of(const std::string& option) { return option == "space" ? " " : option; }

/// Whether a field is a number with this sign between its groups of three digits.
bool is_grouped(std::string_view field, const char* sign) {
  return field.find(sign) != std::string_view::npos &&
         plain_number(field, {.decimal = sign[0] == ',' ? "." : ",", .thousands = sign});
}

/// A field with a hyphen in place of the minus sign (U+2212), and ASCII in place of full-width characters (U+FF0B to
/// U+FF19), as spreadsheets and typesetters write numbers.
std::string with_ascii_digits(std::string_view field) {
  std::string ascii;
  for (std::size_t at = 0; at < field.size(); ++at) {
    const std::string_view rest = field.substr(at);
    if (rest.starts_with("\u2212")) {
      ascii += '-';
      at += 2;
    } else if (rest.size() >= 3 && rest.starts_with("\xEF\xBC") && rest[2] >= '\x8B' && rest[2] <= '\x99') {
      ascii += static_cast<char>(rest[2] - '\x8B' + '+');  // U+FF0B is the full-width plus sign
      at += 2;
    } else {
      ascii += field[at];
    }
  }
  return ascii;
}

/// A field without the signs of currencies and shares around it, and the blanks of all alphabets.
std::string without_units(std::string_view field) {
  constexpr std::string_view units[] = {"$",   "€",   "£",   "¥", "₹", "%", "‰",      "USD",
                                        "EUR", "GBP", "CHF", "(", ")", " ", "\u00A0", "\u202F"};
  std::string sign;
  for (bool found = true; found;) {
    found = false;
    if (sign.empty() && (field.starts_with('-') || field.starts_with('+'))) {
      sign = field.substr(0, 1);
      field.remove_prefix(1);
    }
    for (const std::string_view unit : units) {
      if (field.starts_with(unit)) {
        field.remove_prefix(unit.size());
        found = true;
      } else if (field.ends_with(unit)) {
        field.remove_suffix(unit.size());
        found = true;
      }
    }
  }
  return sign + std::string(field);
}

}  // namespace

void check_form(const TableForm& form) {
  if (form.decimal != "." && form.decimal != ",")
    throw ConfigError(fmt::format("--decimal '{}': it must be '.' or ','", form.decimal));
  const std::string thousands = separator_of(form.thousands);
  if (thousands.empty()) return;
  const auto lead = static_cast<unsigned char>(thousands[0]);
  const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (find_invalid_utf8(thousands) != std::string::npos || thousands.size() != bytes || std::isalnum(lead) ||
      thousands.find_first_of("+-\"\n\r") != std::string::npos || thousands == form.decimal) {
    throw ConfigError(fmt::format(
        "--thousands '{}': it must be one character other than the decimal '{}', a digit, letter or sign; or 'space'",
        form.thousands, form.decimal));
  }
}

std::optional<std::string> plain_number(std::string_view field, const TableForm& form) {
  if (form.decimal == "." && form.thousands.empty())
    return parse_number(field) ? std::optional<std::string>(field) : std::nullopt;
  std::size_t at = field.find_first_not_of("+-") == 1 ? 1 : 0;
  std::string plain(field.substr(0, at));
  plain += take_whole_part(field, separator_of(form.thousands), at);
  if (field.substr(at).starts_with(form.decimal)) {
    const std::size_t end = std::min(field.find_first_not_of("0123456789", at + 1), field.size());
    plain += "." + std::string(field.substr(at + 1, end - at - 1));
    at = end;
  }
  if (at < field.size() && field[at] != 'e' && field[at] != 'E') return std::nullopt;
  plain += field.substr(at);
  return parse_number(plain) ? std::optional<std::string>(plain) : std::nullopt;
}

std::string advice_on_number(const std::string& field, const TableForm& form) {
  const std::string bare = without_units(field);
  const bool decimal_comma = plain_number(bare, {.decimal = ","}).has_value();
  if (bare != field && (plain_number(bare, form) || decimal_comma || is_grouped(bare, ",") || is_grouped(bare, "."))) {
    return "is a number with a unit; write the number alone";
  }
  if (is_grouped(field, ",") && decimal_comma) {
    return fmt::format("may be {} or {}; set --thousands ',' or --decimal ','",
                       *plain_number(field, {.thousands = ","}), *plain_number(field, {.decimal = ","}));
  }
  if (decimal_comma) return "has a decimal comma; set --decimal ','";
  if (const std::string ascii = with_ascii_digits(field); ascii != field && plain_number(ascii, form)) {
    return fmt::format("has digits or signs of another alphabet; write it as {}", ascii);
  }
  for (const char* sign : {",", ".", "'", "’", " ", "\u00A0", "\u202F"}) {
    if (!is_grouped(field, sign)) continue;
    return fmt::format("has '{}' between its digits; set --thousands {}{}", sign,
                       sign[0] == ' '    ? "space"
                       : sign[0] == '\'' ? "\"'\""
                                         : fmt::format("'{}'", sign),
                       sign[0] == '.' ? " --decimal ','" : "");
  }
  return "";
}

std::optional<double> parse_time(const std::string& text) {
  if (const auto number = parse_number(text)) return number;
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, read = 0;
  double second = 0;
  // 31-12-24 is no year 31.
  if (text.find('-') != 4 || text.find_first_not_of("0123456789-:.TZ ") != std::string::npos) return std::nullopt;
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
  if (!date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 || !(second >= 0 && second < 61))
    return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + hour * 3600 + minute * 60 + second;
}

namespace {

/// A date of another order as ISO 8601 writes it: "1/3/2024 12:30" as "2024-3-1 12:30"; empty where it is none.
std::string in_iso_order(const std::string& text, DateOrder order) {
  constexpr char digits[] = "0123456789";
  const auto end_of_digits = [&](std::size_t from) {
    return std::min(text.find_first_not_of(digits, from), text.size());
  };
  const std::size_t a = end_of_digits(0), b = end_of_digits(a + 1), c = end_of_digits(b + 1);
  const bool is_date = a >= 1 && a <= 2 && b >= a + 2 && b <= a + 3 && c == b + 5 && text[a] == text[b] &&
                       std::string_view("/.-").find(text[a]) != std::string_view::npos;
  if (!is_date) return "";
  std::string day = text.substr(0, a), month = text.substr(a + 1, b - a - 1);
  if (order == DateOrder::mdy) std::swap(day, month);
  return fmt::format("{}-{}-{}{}", text.substr(b + 1, 4), month, day, text.substr(c));
}

}  // namespace

std::optional<Date> parse_date(const std::string& text, DateOrder order) {
  const std::string iso = order == DateOrder::ymd ? text : in_iso_order(text, order);
  if (parse_number(iso)) return std::nullopt;
  const auto seconds = parse_time(iso);
  if (!seconds) return std::nullopt;
  constexpr double kSecondsOfDay = 86400, kSecondsOfHour = 3600;
  Date date;
  date.days = std::floor(*seconds / kSecondsOfDay);
  date.hour = (*seconds - date.days * kSecondsOfDay) / kSecondsOfHour;
  date.has_time = iso.find(':') != std::string::npos;
  const std::chrono::sys_days day{std::chrono::days(static_cast<int>(date.days))};
  const std::chrono::year_month_day parts{day};
  date.year = int{parts.year()};
  date.month = static_cast<int>(unsigned{parts.month()});
  date.weekday = static_cast<int>(std::chrono::weekday{day}.iso_encoding());
  return date;
}

void split_line(const LineReader& line, const std::string& text, char delimiter, std::vector<std::string>& fields) {
  fields.clear();
  std::string quoted;
  const bool blanks = delimiter == ' ';
  const auto is_delimiter = [&](char c) { return c == delimiter || (blanks && c == '\t'); };
  const auto skip_blanks = [&](std::size_t at) {
    while (at < text.size() && is_blank(text[at]) && (text[at] != delimiter || blanks)) ++at;
    return at;
  };
  for (std::size_t at = skip_blanks(0);; at = skip_blanks(at + 1)) {
    if (at < text.size() && text[at] == '"') {
      if (!read_quoted(text, ++at, quoted)) fail_quote(line, fields.size() + 1, "a quote is opened but not closed");
      if (!blanks) at = skip_blanks(at);
      if (at < text.size() && !is_delimiter(text[at]))
        fail_quote(line, fields.size() + 1, "text follows a closing quote");
      fields.push_back(quoted);
    } else {
      const std::size_t end = std::min(blanks ? text.find_first_of(" \t", at) : text.find(delimiter, at), text.size());
      fields.emplace_back(without_blanks(std::string_view(text).substr(at, end - at)));
      at = end;
    }
    if (at >= text.size()) return;
    if (blanks && skip_blanks(at) == text.size()) return;
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

bool is_missing(std::string_view field, const TableForm& form) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  const auto are_same_numbers = [&](const std::string& value) {
    const bool is_number = !value.empty() && (std::isdigit(static_cast<unsigned char>(value.back())) != 0);
    if (!is_number || std::isdigit(static_cast<unsigned char>(field.back())) == 0) return false;
    const auto first = parse_number(value), second = parse_number(std::string(field));
    return first && second && *first == *second;
  };
  return field.empty() || std::any_of(form.missing_values.begin(), form.missing_values.end(), [&](const auto& value) {
           return (value.size() == field.size() && std::equal(value.begin(), value.end(), field.begin(), same)) ||
                  are_same_numbers(value);
         });
}

namespace {

/// \param fields of a line, of names or values \throws DataError where they are more or fewer than the table's columns
void require_count(const CsvDialect& dialect, const LineReader& line, const std::vector<std::string>& fields) {
  if (fields.size() == dialect.columns) return;
  const std::string count = count_of(std::ssize(fields), "field");
  if (dialect.file.empty() || line.name() == dialect.file)
    line.fail(fmt::format("has {}, but the first line has {}", count, dialect.columns));
  line.fail(fmt::format("has {}, but {} has {}; all files of a table must have the same columns", count, dialect.file,
                        dialect.columns));
}

/// \throws DataError where the line of names above another file of the table has other ones
void require_names(const CsvDialect& dialect, const LineReader& line, const std::vector<std::string>& names) {
  if (dialect.file.empty() || line.name() == dialect.file) return;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || names[i] == dialect.names[i]) continue;
    line.fail(fmt::format(
        "column {} is named '{}', but '{}' in {}; all files of a table must have the same columns in the same order",
        i + 1, names[i], dialect.names[i], dialect.file));
  }
}

}  // namespace

RowFormat<std::vector<std::string>> csv_rows(const CsvDialect& dialect, std::string_view none, LeftOut* left_out) {
  const auto cut = [dialect](const LineReader& line, const std::string& text, std::vector<std::string>& fields) {
    split_line(line, text, dialect.delimiter, fields);
    require_count(dialect, line, fields);
  };
  const auto parse = [dialect, cut, left_out](const LineReader& line, const std::string& text,
                                              std::vector<std::string>& fields) {
    cut(line, text, fields);
    const auto is_empty = [](const std::string& field) { return field.empty(); };
    const bool empty =
        !dialect.empty_rows && dialect.columns > 1 && std::all_of(fields.begin(), fields.end(), is_empty);
    const bool unlabelled = !empty && dialect.needed && is_missing(fields[*dialect.needed], dialect.form);
    if (left_out != nullptr && empty) ++left_out->empty;
    if (left_out != nullptr && unlabelled) ++left_out->unlabelled;
    return !empty && !unlabelled;
  };
  if (!dialect.header) return {.none = none, .parse = parse, .quoted = dialect.delimiter};
  const auto check_names = [dialect, cut](const LineReader& line, const std::string& text) {
    if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos) line.fail(at + 1, not_utf8(text[at]));
    std::vector<std::string> names;
    cut(line, text, names);
    require_names(dialect, line, names);
  };
  return {.none = none, .parse = parse, .names = check_names, .quoted = dialect.delimiter};
}

}  // namespace unisono::data
