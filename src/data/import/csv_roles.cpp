#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>

#include "import/csv_columns.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kMostTexts = 1000;      // of a column of words or labels
constexpr std::size_t kMostGroups = 1 << 24;  // of a column of groups
constexpr std::size_t kMostIds = 1 << 20;     // that are looked at
constexpr std::int64_t kFewestIds = 10, kFewestNames = 20;

/// A date, with a time of the day or without: 2024-02-29, 29.02.2024, 2/29/2024, 29.02.24 18:30.
bool is_date(const std::string& field) {
  if (parse_number(field)) return false;
  if (parse_time(field)) return true;
  std::size_t at = 0, lengths[3] = {};
  char separator = 0;
  for (std::size_t& length : lengths) {
    const std::size_t end = std::min(field.find_first_not_of("0123456789", at), field.size());
    length = end - at;
    at = end;
    if (&length == &lengths[2]) break;
    if (at == field.size() || (field[at] != '-' && field[at] != '/' && field[at] != '.')) return false;
    if (separator != 0 && field[at] != separator) return false;
    separator = field[at++];
  }
  const bool year_first = lengths[0] == 4 && lengths[1] >= 1 && lengths[1] <= 2 && lengths[2] >= 1 && lengths[2] <= 2;
  const bool year_last = lengths[0] >= 1 && lengths[0] <= 2 && lengths[1] >= 1 && lengths[1] <= 2 && lengths[2] == 4;
  const bool short_year = lengths[0] == 2 && lengths[1] == 2 && lengths[2] == 2;
  const bool ends = at == field.size() || field[at] == ' ' || field[at] == 'T';
  return ends && (year_first || year_last || short_year);
}

bool has_distinct_ids(const ColumnShape& shape) {
  std::vector<double> sorted = shape.ids;
  std::sort(sorted.begin(), sorted.end());
  return shape.whole && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

/// Why a column says nothing about an example; empty: it may say something.
std::string reason_to_leave_out(const CsvTable& table, const CsvColumn& column) {
  const ColumnShape& shape = column.shape;
  if (!shape.watched || shape.values < kFewestIds) return "";
  if (column.role == ColumnRole::number) {
    const bool may_count = column.named_as_id || (!table.dialect.header && &column == &table.columns.front());
    if (may_count && shape.counts && shape.values == table.rows) return "counts the rows";
    return column.named_as_id && has_distinct_ids(shape) ? "a number of its own in each row" : "";
  }
  if (column.role != ColumnRole::words) return "";
  if (shape.dates) return "dates";
  const bool distinct = shape.too_many || static_cast<std::int64_t>(column.codes.size()) == shape.values;
  return distinct && (column.named_as_id || shape.values >= kFewestNames) ? "a text of its own in each row" : "";
}

/// A text on one line, and not a long one.
std::string in_short(std::string text) {
  constexpr std::size_t kLongest = 30;  // bytes
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  if (text.size() <= kLongest) return text.empty() ? "(missing)" : text;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;  // inside of a character
  return text.substr(0, end) + "…";
}

std::string first_of(const std::vector<std::string>& texts) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min(kShown, texts.size()); ++i) first.push_back(in_short(texts[i]));
  return fmt::format("{}{}", fmt::join(first, ", "), texts.size() > kShown ? ", …" : "");
}

std::string counted(const std::vector<std::string>& texts, const char* what) {
  return fmt::format("{}: {}", count_of(std::ssize(texts), what), first_of(texts));
}

ImportedColumn describe_number(const CsvTable& table, const CsvColumn& column) {
  ImportedColumn described;
  described.name = column.name;
  described.role = "number";
  if (column.shape.values == 0) {
    described.what = "no values";
  } else {
    described.what = fmt::format("{:g} to {:g}", column.low, column.high);
  }
  if (column.shape.values > 1 && column.low == column.high) described.what = fmt::format("constant: {:g}", column.low);
  if (column.shape.counts && column.shape.values == table.rows && table.rows >= kFewestIds)
    described.what += ", counts the rows: --exclude leaves it out";
  if (column.shape.leading_zeros) described.what += ", with leading zeros: --categorical takes the values as names";
  described.plain = described.what.find(" to ") != std::string::npos && described.what.find(',') == std::string::npos;
  return described;
}

/// Of a column of words, or one that was left out.
std::string advice_on_dates(const CsvColumn& column) {
  if (!column.shape.dates) return "";
  return fmt::format("; --dates '{}' makes numbers of dates", column.name);
}

ImportedColumn describe_date(const CsvColumn& column) {
  if (column.shape.values == 0) return {column.name, "date", "no values"};
  const auto written = [](double days) {
    const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days(static_cast<int>(days))}};
    return fmt::format("{:04}-{:02}-{:02}", int{date.year()}, unsigned{date.month()}, unsigned{date.day()});
  };
  return {column.name, "date",
          fmt::format("{} to {}: {}", written(column.low), written(column.high), fmt::join(column.features(), ", "))};
}

ImportedColumn describe_column(const CsvTable& table, const CsvColumn& column) {
  switch (column.role) {
    case ColumnRole::number:
      return describe_number(table, column);
    case ColumnRole::words:
      return {column.name, "category", counted(column.texts, "level") + advice_on_dates(column)};
    case ColumnRole::date:
      return describe_date(column);
    case ColumnRole::label:
      return {column.name, "label", counted(column.texts, "class")};
    case ColumnRole::target:
      return {column.name, "target", fmt::format("{:g} to {:g}", column.low, column.high)};
    case ColumnRole::flag:
      return {column.name, "label",
              column.low == column.high ? fmt::format("{:g} in all rows", column.low) : "0 and 1"};
    case ColumnRole::group:
      return {column.name, "group", counted(column.texts, "group")};
    case ColumnRole::time:
      return {column.name, "time", column.dated.value_or(false) ? "dates" : "numbers"};
    case ColumnRole::weight:
      return {column.name, "weight", fmt::format("{:g} to {:g}", column.low, column.high)};
    case ColumnRole::excluded:
      break;
  }
  if (column.left_out.empty()) return {column.name, "left out", "--exclude"};
  return {column.name, "left out",
          fmt::format("{}{}; --include '{}' keeps it", column.left_out, advice_on_dates(column), column.name)};
}

}  // namespace

bool is_name_of_ids(const std::string& name) {
  std::string bare;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::string_view names[] = {"id",       "ids", "index", "idx",  "rowid",    "rowindex", "rownumber",
                                        "rownames", "uid", "uuid",  "guid", "unnamed0", "recordid"};
  const bool ends =
      name.ends_with("_id") || name.ends_with("_ID") || name.ends_with(" id") || name.ends_with(" ID") ||
      name.ends_with("-id") || (name.ends_with("Id") && name.size() > 2) ||
      (name.ends_with("ID") && name.size() > 2 && std::islower(static_cast<unsigned char>(name[name.size() - 3])));
  return ends || std::find(std::begin(names), std::end(names), bare) != std::end(names);
}

void note_number(CsvColumn& column, double value) {
  const bool first = column.rounding < 0;
  column.low = first ? value : std::min(column.low, value);
  column.high = first ? value : std::max(column.high, value);
  column.rounding = std::max(column.rounding, std::abs(value - double{static_cast<float>(value)}));
  ColumnShape& shape = column.shape;
  if (first) shape.first = value;
  shape.counts = shape.counts && (shape.first == 0 || shape.first == 1) &&
                 value == shape.first + static_cast<double>(shape.values);
  shape.whole = shape.whole && value == std::trunc(value);
  if (shape.watched && column.named_as_id && shape.whole && shape.ids.size() < kMostIds) shape.ids.push_back(value);
  ++shape.values;
}

namespace {

bool all_numbers(const CsvColumn& column) {
  return std::ranges::all_of(column.codes, [](const auto& entry) { return exact_number(entry.first).has_value(); });
}

}  // namespace

void require_task(const OpenText& open, const CsvTable& table) {
  const CsvColumn* const label = table.column_of(ColumnRole::label);
  const bool is_clear = label == nullptr || label->are_classes || label->texts.size() <= kMostNumberedClasses;
  if (is_clear || !all_numbers(*label)) return;
  ask_for_task(fmt::format("{}: column '{}'", open()->name(), label->name), fmt::format("{}", label->texts.size()));
}

void note_text(const LineReader& line, CsvColumn& column, const std::string& field) {
  if (const std::size_t at = find_invalid_utf8(field); at != std::string::npos)
    fail_at(line, column, not_utf8(field[at]));
  ColumnShape& shape = column.shape;
  ++shape.values;
  const bool feature = shape.watched && column.role == ColumnRole::words;
  if (feature) shape.dates = shape.dates && is_date(field);
  if (shape.too_many && (shape.dates || !shape.dates_alone)) return;
  column.codes.emplace(field, 0);
  if (column.codes.size() <= (column.role == ColumnRole::group ? kMostGroups : kMostTexts)) return;
  if (column.role == ColumnRole::label && !column.are_classes && all_numbers(column)) {
    ask_for_task(fmt::format("{}: column '{}'", line.name(), column.name), fmt::format("more than {}", kMostTexts));
  }
  const bool distinct = static_cast<std::int64_t>(column.codes.size()) == shape.values;
  if (feature && !shape.too_many && (shape.dates || distinct)) {
    shape.too_many = true;
    shape.dates_alone = !distinct;
    return;
  }
  fail_at(line, column,
          fmt::format("'{}' is distinct value number {}, which is too many for classes or categories; {}", field,
                      kMostTexts + 1,
                      column.role == ColumnRole::label
                          ? "leave out rare ones; for numbers to predict, use --target instead of --label"
                          : "leave the column out with --exclude"));
}

void leave_out_columns(CsvTable& table) {
  std::size_t left = 0;
  for (CsvColumn& column : table.columns) {
    column.left_out = reason_to_leave_out(table, column);
    if (column.is_feature() && column.left_out.empty()) ++left;
  }
  for (CsvColumn& column : table.columns) {
    // Of what was not watched, nothing is known.
    column.shape.dates &= column.shape.watched && column.role == ColumnRole::words && column.shape.values > 0;
    column.shape.watched = false;
    if (column.left_out.empty()) continue;
    if (left > 0 || column.shape.too_many) {
      column.role = ColumnRole::excluded;
      column.codes.clear();
    } else {
      column.left_out.clear();  // there is no other feature
    }
  }
}

std::vector<ImportedColumn> describe_columns(const CsvTable& table) {
  std::vector<ImportedColumn> described;
  for (const CsvColumn& column : table.columns) {
    described.push_back(describe_column(table, column));
    described.back().name = in_short(column.name);
  }
  return described;
}

}  // namespace unisono::data
