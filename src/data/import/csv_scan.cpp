#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "import/csv_columns.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kMostTexts = 1000;  // of a column of words or labels

[[noreturn]] void fail(const LineReader& line, const CsvColumn& column, const std::string& what) {
  throw DataError(fmt::format("{}:{}: column '{}': {}", line.name(), line.number(), column.name, what));
}

void check_number(const LineReader& line, const CsvColumn& column, const std::string& field) {
  const auto number = parse_number(field);
  if (number && std::abs(*number) <= double{std::numeric_limits<float>::max()}) return;
  fail(line, column,
       fmt::format("'{}' is no number that a float32 can hold; rows above have numbers there (or name the column with "
                   "--categorical or --exclude)",
                   field));
}

void check_decimal_comma(const LineReader& line, const CsvColumn& column, std::string field) {
  std::replace(field.begin(), field.end(), ',', '.');
  if (!parse_number(field)) return;
  fail(line, column, fmt::format("the number {} is written with a decimal comma; write decimal points", field));
}

void note_text(const LineReader& line, CsvColumn& column, const std::string& field) {
  column.codes.emplace(field, 0);
  if (column.codes.size() <= kMostTexts) return;
  fail(line, column,
       fmt::format("'{}' is its text number {}; {}", field, kMostTexts + 1,
                   column.role == ColumnRole::label ? "for numbers to predict say --target in place of --label"
                                                    : "leave the column out with --exclude"));
}

void scan_row(std::vector<CsvColumn>& columns, const LineReader& line, const std::vector<std::string>& fields,
              bool first) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    CsvColumn& column = columns[i];
    if (column.role == ColumnRole::excluded) continue;
    if (is_missing(fields[i])) {
      fail(line, column,
           fmt::format("the value is missing ('{}'); fill it in, or leave the line or the column out", fields[i]));
    }
    if (first && column.role == ColumnRole::number && !parse_number(fields[i])) {
      check_decimal_comma(line, column, fields[i]);
      column.role = ColumnRole::words;
    }
    column.has_codes() ? note_text(line, column, fields[i]) : check_number(line, column, fields[i]);
  }
}

/// Numbers the texts: by value where all are numbers, otherwise by the alphabet.
void number_texts(CsvColumn& column) {
  const bool numbers = std::all_of(column.codes.begin(), column.codes.end(),
                                   [](const auto& entry) { return parse_number(entry.first).has_value(); });
  std::map<double, std::int64_t> by_value;
  if (numbers) {
    for (const auto& [text, code] : column.codes) by_value.emplace(*parse_number(text), 0);
    std::int64_t next = 0;
    for (auto& [value, code] : by_value) code = next++;
    column.texts.resize(by_value.size());
  }
  std::int64_t next = 0;
  for (auto& [text, code] : column.codes) {
    code = numbers ? by_value.at(*parse_number(text)) : next++;
    if (!numbers)
      column.texts.push_back(text);
    else if (column.texts[static_cast<std::size_t>(code)].empty())
      column.texts[static_cast<std::size_t>(code)] = text;
  }
}

/// A second table has the same names on top.
void check_names(const OpenTable& open, const CsvTable& table) {
  const auto lines = open();
  std::string text;
  std::vector<std::string> names;
  if (lines->next(text)) split_line(*lines, text, table.dialect.delimiter, names);
  for (std::size_t i = 0; i < names.size() && i < table.columns.size(); ++i) {
    if (names[i].empty() || names[i] == table.columns[i].name) continue;
    throw DataError(fmt::format("{}:{}: column {} is named '{}', but '{}' in the training table", lines->name(),
                                lines->number(), i + 1, names[i], table.columns[i].name));
  }
}

std::int64_t scan_rows(const OpenTable& open, CsvTable& table, bool decides) {
  std::int64_t rows = 0;
  for_each_row(open, table.dialect, [&](const LineReader& line, const std::vector<std::string>& fields) {
    scan_row(table.columns, line, fields, decides && rows == 0);
    ++rows;
  });
  if (rows == 0) throw DataError(open()->name() + ": holds no row below its names");
  return rows;
}

}  // namespace

void for_each_row(const OpenTable& open, const CsvDialect& dialect, const VisitRow& visit) {
  const auto lines = open();
  std::string text;
  std::vector<std::string> fields;
  for (bool names = dialect.header; lines->next(text); names = false) {
    split_line(*lines, text, dialect.delimiter, fields);
    if (fields.size() != dialect.columns) {
      throw DataError(fmt::format("{}:{}: has {} fields, but the first line has {}", lines->name(), lines->number(),
                                  fields.size(), dialect.columns));
    }
    if (!names) visit(*lines, fields);
  }
}

CsvTable scan_table(const OpenTable& open, const OpenTable& open_test, const CsvOptions& options) {
  CsvTable table;
  table.dialect = detect_dialect(open, options.delimiter, options.header);
  table.columns = name_columns(open, table.dialect);
  give_roles(table.columns, options);
  table.rows = scan_rows(open, table, true);
  if (open_test) {
    if (table.dialect.header) check_names(open_test, table);
    table.test_rows = scan_rows(open_test, table, false);
  }
  for (CsvColumn& column : table.columns) {
    if (column.has_codes()) number_texts(column);
  }
  if (table.feature_names().empty()) throw DataError(open()->name() + ": has no column that is a feature");
  return table;
}

void encode_row(const CsvTable& table, const LineReader& line, const std::vector<std::string>& fields, CsvRow& row) {
  row.features.clear();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const CsvColumn& column = table.columns[i];
    const auto code = column.codes.find(fields[i]);
    const auto number = column.has_codes() ? std::optional<double>() : parse_number(fields[i]);
    if (column.role == ColumnRole::excluded) continue;
    if (column.has_codes() ? code == column.codes.end() : !number) fail(line, column, "changed while it was read");
    switch (column.role) {
      case ColumnRole::number:
        row.features.push_back(static_cast<float>(*number));
        break;
      case ColumnRole::words:
        row.features.resize(row.features.size() + column.texts.size(), 0.0F);
        row.features[row.features.size() - column.texts.size() + static_cast<std::size_t>(code->second)] = 1;
        break;
      case ColumnRole::label:
        row.label = code->second;
        break;
      case ColumnRole::target:
        row.target = static_cast<float>(*number);
        break;
      case ColumnRole::excluded:
        break;
    }
  }
}

}  // namespace unisono::data
