#include "import/rating_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "import/csv_dialect.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

using Columns = std::array<std::optional<std::size_t>, kRatingColumns.size()>;

constexpr std::string_view kRatingBlanks = " \t";
constexpr auto kRatingPlace = static_cast<std::size_t>(RatingColumn::rating);

/// Takes a field in quotes from the front of a text, if a delimiter or the text's end follows its last quote.
bool take_quoted(std::string_view& text, std::string_view delimiter, RatingFields& fields) {
  if (!text.starts_with('"')) return false;
  bool doubled = false;
  std::size_t end = text.find('"', 1);
  for (; end != std::string_view::npos && end + 1 < text.size() && text[end + 1] == '"'; end = text.find('"', end + 2))
    doubled = true;
  if (end == std::string_view::npos) return false;
  std::string_view value = text.substr(1, end - 1), rest = text.substr(end + 1);
  const std::string_view after = without_blanks(rest);
  const bool blanks = delimiter == " ";
  if (blanks ? !rest.empty() && after.size() == rest.size() : !after.empty() && !after.starts_with(delimiter))
    return false;
  if (doubled) {
    std::string plain(value);
    for (std::size_t at = plain.find("\"\""); at != std::string::npos; at = plain.find("\"\"", at + 1))
      plain.erase(at, 1);
    value = fields.unquoted.emplace_back(std::move(plain));
  }
  fields.values.push_back(value);
  text = blanks ? rest : after;
  return true;
}

/// The first lines as a delimiter cuts them.
struct RatingCut {
  std::string delimiter;
  std::vector<RatingFields> rows;
  std::size_t fields = 0;  ///< of most rows; 0: there is no such number
  bool all = false;        ///< all rows have as many
};

RatingCut cut_ratings(const std::vector<std::string>& sample, const std::string& delimiter) {
  RatingCut cut{delimiter, std::vector<RatingFields>(sample.size())};
  for (std::size_t i = 0; i < sample.size(); ++i) split_rating(sample[i], delimiter, cut.rows[i]);
  for (const RatingFields& row : cut.rows) {
    const auto alike = static_cast<std::size_t>(std::count_if(
        cut.rows.begin(), cut.rows.end(), [&](const auto& other) { return other.values.size() == row.values.size(); }));
    if (2 * alike <= cut.rows.size()) continue;
    cut.fields = row.values.size();
    cut.all = alike == cut.rows.size();
    break;
  }
  return cut;
}

/// A name in small letters, without what stands between its words: "User_ID" is "userid".
std::string bare_name(std::string_view name) {
  std::string bare;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || byte >= 0x80) bare += static_cast<char>(std::tolower(byte));
  }
  return bare;
}

/// The column that a name in a header line stands for, if it is one of those that most data sets use.
std::optional<std::size_t> column_named(std::string_view name) {
  static const std::vector<std::vector<std::string_view>> names = {
      {"user", "userid", "users", "uid", "u", "customer", "customerid", "reviewer", "reviewerid", "member", "memberid",
       "visitor", "visitorid", "account", "accountid", "userno", "userindex", "useridx"},
      {"item",      "itemid",    "items",   "iid",  "i",      "movie",    "movieid",    "film",    "filmid", "product",
       "productid", "book",      "bookid",  "isbn", "song",   "songid",   "track",      "trackid", "artist", "artistid",
       "asin",      "anime",     "animeid", "game", "gameid", "business", "businessid", "joke",    "jokeid", "article",
       "articleid", "itemindex", "itemidx", "beer", "beerid", "recipe",   "recipeid",   "show",    "showid"},
      {"rating", "ratings", "rate", "score", "stars", "star", "overall", "value", "weight", "count", "plays",
       "playcount", "preference", "r"},
      {"time", "times", "timestamp", "timestamps", "ts", "t", "date", "datetime", "unixtime", "unixreviewtime",
       "ratingtime"}};
  const std::string bare = bare_name(name);
  if (bare.ends_with("rating")) return kRatingPlace;  // "Book-Rating"
  for (std::size_t column = 0; column < names.size(); ++column) {
    if (std::find(names[column].begin(), names[column].end(), bare) != names[column].end()) return column;
  }
  return {};
}

/// Where a line of names has user, item, rating and time. \return nothing if one of the first three is missing, or one
/// occurs twice
std::optional<Columns> columns_by_names(const RatingFields& names) {
  Columns columns;
  for (std::size_t i = 0; i < names.values.size(); ++i) {
    const auto column = column_named(names.values[i]);
    if (!column) continue;
    if (columns[*column]) return {};
    columns[*column] = i;
  }
  if (!columns[0] || !columns[1] || !columns[2]) return {};
  return columns;
}

bool is_number(std::string_view field, const TableForm& form) {
  return plain_number(field, form) || !advice_on_number(std::string(field), form).empty();
}

/// Whether a cut may be of ratings: it has the names, or three or four fields, or the options name the columns.
bool suits(const RatingCut& cut, const RatingsOptions& options) {
  if (cut.fields < 3) return false;
  const auto names = columns_by_names(cut.rows[0]);
  if (!options.columns.empty() || (names && cut.rows[0].values.size() == cut.fields)) return true;
  return cut.fields <= 4;
}

/// Whether the third field is a number below the first line, which may hold names.
bool has_ratings(const RatingCut& cut, const RatingsOptions& options) {
  if (!options.columns.empty() || columns_by_names(cut.rows[0])) return true;
  return std::all_of(cut.rows.begin() + (cut.rows.size() > 1 ? 1 : 0), cut.rows.end(), [&](const RatingFields& row) {
    return row.values.size() != cut.fields || is_number(row.values[kRatingPlace], options.form);
  });
}

bool all_commas_are_of_numbers(const RatingCut& cut, const TableForm& form) {
  bool any = false;
  for (std::size_t i = cut.rows.size() > 1 ? 1 : 0; i < cut.rows.size(); ++i) {
    for (const std::string_view field : cut.rows[i].values) {
      if (field.find(',') == std::string_view::npos) continue;
      if (!is_number(field, form)) return false;
      any = true;
    }
  }
  return any;
}

std::string detect_delimiter(const std::string& name, const std::vector<std::string>& sample,
                             const RatingsOptions& options) {
  std::vector<RatingCut> all, most;
  for (const char* delimiter : {"::", "\t", ",", ";", "|"}) {
    RatingCut cut = cut_ratings(sample, delimiter);
    if (!suits(cut, options)) continue;
    (cut.all && has_ratings(cut, options) ? all : most).push_back(std::move(cut));
  }
  if (all.size() > 1) {
    const auto sure = std::find_if(all.begin(), all.end(), [&](const RatingCut& cut) {
      return cut.delimiter != "," && all_commas_are_of_numbers(cut, options.form);
    });
    if (sure != all.end()) return sure->delimiter;
    throw DataError(fmt::format("{}: cannot tell whether '{}' or '{}' separates the columns; set --delimiter", name,
                                all[0].delimiter, all[1].delimiter));
  }
  if (!all.empty()) return all[0].delimiter;
  const RatingCut blanks = cut_ratings(sample, " ");
  if (suits(blanks, options) && (most.empty() || (blanks.all && has_ratings(blanks, options)))) return " ";
  if (!most.empty()) return most[0].delimiter;
  throw DataError(fmt::format(
      "{}: no delimiter found: neither '::' nor tabs, commas, semicolons, bars or spaces split most of the first lines "
      "into user, item, rating (and time); set --delimiter, or name the columns with --columns; if there are no "
      "ratings, add a column of ones",
      name));
}

std::string parse_rating_delimiter(const std::string& delimiter) {
  if (delimiter == "tab" || delimiter == "\\t") return "\t";
  if (delimiter == "::" || (delimiter.size() == 1 && delimiter != "\n" && delimiter != "\r")) return delimiter;
  throw ConfigError(fmt::format("--delimiter '{}': it must be one character, '::', 'tab' or 'auto'", delimiter));
}

/// Whether the first line has a word wherever all lines below have numbers, at least in one place; or names that most
/// data sets use.
bool detect_header(const RatingCut& cut, const TableForm& form) {
  const std::vector<std::string_view>& names = cut.rows[0].values;
  if (columns_by_names(cut.rows[0])) return true;
  std::vector<bool> numbers(names.size(), cut.rows.size() > 1);
  for (std::size_t i = 1; i < cut.rows.size(); ++i) {
    const auto& fields = cut.rows[i].values;
    for (std::size_t c = 0; c < names.size(); ++c)
      numbers[c] = numbers[c] && c < fields.size() && is_number(fields[c], form);
  }
  bool words = false;
  for (std::size_t c = 0; c < names.size(); ++c) {
    if (numbers[c] && is_number(names[c], form)) return false;
    words = words || (numbers[c] && !is_missing(names[c]));
  }
  return words;
}

/// The column that an option names, by its name or number.
std::size_t find_column(const std::string& which, const RatingFields& first, bool header, std::size_t width) {
  const auto& names = first.values;
  const auto found = std::find(names.begin(), names.end(), which);
  if (header && found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), number);
  if (error == std::errc{} && end == which.data() + which.size() && number >= 1 && number <= width) return number - 1;
  throw ConfigError(fmt::format("--columns: there is no column '{}'; choose from {}", which,
                                header ? fmt::format("{}", fmt::join(names, ", ")) : fmt::format("1 to {}", width)));
}

Columns columns_by_option(const std::string& option, const RatingFields& first, bool header, std::size_t width) {
  Columns columns;
  for (std::size_t at = 0; at <= option.size();) {
    const std::size_t end = std::min(option.find(',', at), option.size());
    const std::string part = option.substr(at, end - at);
    const std::size_t equals = part.find('=');
    const auto kind = std::find(kRatingColumns.begin(), kRatingColumns.end(), part.substr(0, equals));
    if (equals == std::string::npos || kind == kRatingColumns.end())
      throw ConfigError(fmt::format("--columns: '{}' is not one of user=…, item=…, rating=… and time=…", part));
    auto& column = columns[static_cast<std::size_t>(kind - kRatingColumns.begin())];
    if (column) throw ConfigError(fmt::format("--columns: '{}' is given twice", *kind));
    column = find_column(part.substr(equals + 1), first, header, width);
    at = end + 1;
  }
  if (!columns[0] || !columns[1] || !columns[2])
    throw ConfigError(fmt::format("--columns {}: user, item and rating are needed", option));
  for (std::size_t a = 0; a < columns.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (columns[a] && columns[a] == columns[b])
        throw ConfigError(fmt::format("--columns: {} and {} are one column", kRatingColumns[b], kRatingColumns[a]));
    }
  }
  return columns;
}

/// The first three or four columns, unless the header line says otherwise.
Columns columns_by_place(const std::string& name, const RatingFields& first, bool header, std::size_t width) {
  for (std::size_t i = 0; header && i < first.values.size(); ++i) {
    const auto column = column_named(first.values[i]);
    if (!column || *column == i) continue;
    throw DataError(fmt::format(
        "{}: column {} is named '{}', but without names for all of user, item and rating, column {} would be the {}; "
        "set --columns user=…,item=…,rating=…",
        name, i + 1, first.values[i], i + 1, i < kRatingColumns.size() ? kRatingColumns[i] : "fifth or a later one"));
  }
  Columns columns{0, 1, 2};
  if (width > 3) columns[3] = 3;
  return columns;
}

void set_columns(const std::string& name, const RatingCut& cut, const RatingsOptions& options,
                 RatingsDialect& dialect) {
  const RatingFields& first = cut.rows[0];
  std::optional<Columns> columns;
  if (!options.columns.empty()) {
    columns = columns_by_option(options.columns, first, dialect.header, dialect.width);
  } else if (dialect.header) {
    columns = columns_by_names(first);
  }
  dialect.named = columns.has_value();
  if (!columns) {
    columns = columns_by_place(name, first, dialect.header, dialect.width);
    dialect.width = std::clamp<std::size_t>(dialect.width, 3, 4);
  }
  dialect.fields = (*columns)[3] ? 4 : 3;
  for (std::size_t kind = 0; kind < dialect.fields; ++kind) {
    const std::size_t column = (*columns)[kind].value();
    dialect.columns[kind] = column;
    const bool has_name = dialect.header && column < first.values.size() && !first.values[column].empty();
    dialect.said += fmt::format("{}{}: {}", kind == 0 ? "" : ", ", kRatingColumns[kind],
                                has_name ? std::string(first.values[column]) : fmt::format("column {}", column + 1));
  }
}

[[noreturn]] void fail_in_column(const LineReader& line, const RatingsDialect& dialect, RatingColumn column,
                                 const std::string& what) {
  const auto kind = static_cast<std::size_t>(column);
  line.fail(fmt::format("column {} ({}): {}", dialect.columns[kind] + 1, kRatingColumns[kind], what));
}

void check_id(const LineReader& line, const RatingsDialect& dialect, RatingColumn column, std::string_view id) {
  if (id.empty()) fail_in_column(line, dialect, column, "is empty");
  if (const std::size_t at = find_invalid_utf8(id); at != std::string_view::npos)
    fail_in_column(line, dialect, column, not_utf8(id[at]));
}

/// A number, with what is wrong with it.
double number_in(const LineReader& line, const RatingsDialect& dialect, RatingColumn column, std::string_view field,
                 const char* advice) {
  if (const auto plain = plain_number(field, dialect.form)) return *parse_number(*plain);
  const std::string more = advice_on_number(std::string(field), dialect.form);
  fail_in_column(
      line, dialect, column,
      more.empty() ? fmt::format("'{}' is not a number{}", field, advice) : fmt::format("'{}' {}", field, more));
}

}  // namespace

void split_rating(std::string_view text, std::string_view delimiter, RatingFields& fields) {
  const bool blanks = delimiter == " ";
  fields.values.clear();
  fields.unquoted.clear();
  for (text = without_blanks(text);;) {
    if (!take_quoted(text, delimiter, fields)) {
      const std::size_t end = std::min(blanks ? text.find_first_of(kRatingBlanks) : text.find(delimiter), text.size());
      fields.values.push_back(without_blanks(text.substr(0, end)));
      text.remove_prefix(end);
    }
    if (text.empty()) return;
    text = without_blanks(text.substr(blanks ? 1 : delimiter.size()));
  }
}

RatingsDialect detect_ratings(const OpenText& open, const RatingsOptions& options) {
  const auto lines = open();
  check_form(options.form);
  RatingsDialect dialect;
  dialect.form = options.form;
  const std::string& delimiter = options.form.delimiter;
  if (delimiter != "auto") dialect.delimiter = parse_rating_delimiter(delimiter);
  const std::vector<std::string> sample = first_lines(*lines, "a file of ratings has at least one line");
  if (delimiter == "auto") dialect.delimiter = detect_delimiter(lines->name(), sample, options);
  const RatingCut cut = cut_ratings(sample, dialect.delimiter);
  dialect.header =
      options.header == Header::automatic ? detect_header(cut, options.form) : options.header == Header::yes;
  dialect.width = cut.rows[0].values.size();
  set_columns(lines->name(), cut, options, dialect);
  return dialect;
}

Rating parse_rating(const LineReader& line, std::string_view text, const RatingsDialect& dialect,
                    RatingFields& fields) {
  split_rating(text, dialect.delimiter, fields);
  const std::vector<std::string_view>& values = fields.values;
  if (values.size() != dialect.width) {
    const std::size_t at = values.size() < dialect.width || !fields.unquoted.empty()
                               ? text.size()
                               : static_cast<std::size_t>(values[dialect.width].data() - text.data());
    line.fail(at + 1, fmt::format("has {}, but {} are expected: {}", count_of(std::ssize(values), "field"),
                                  dialect.width, dialect.said));
  }
  const auto field = [&](RatingColumn column) { return values[dialect.columns[static_cast<std::size_t>(column)]]; };
  Rating rating{.user = field(RatingColumn::user), .item = field(RatingColumn::item)};
  check_id(line, dialect, RatingColumn::user, rating.user);
  check_id(line, dialect, RatingColumn::item, rating.item);
  const std::string_view written = field(RatingColumn::rating);
  const double value = number_in(line, dialect, RatingColumn::rating, written, " in the range of float32");
  if (std::abs(value) > double{std::numeric_limits<float>::max()}) {
    fail_in_column(line, dialect, RatingColumn::rating,
                   fmt::format("'{}' is not a number in the range of float32", written));
  }
  rating.value = static_cast<float>(value);
  if (dialect.fields < 4) return rating;
  rating.time = number_in(line, dialect, RatingColumn::time, field(RatingColumn::time), "; write times as seconds");
  return rating;
}

}  // namespace unisono::data
