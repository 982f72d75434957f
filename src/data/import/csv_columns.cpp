#include "import/csv_columns.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// Index of the column of this name or number.
/// \throws ConfigError where there is none
std::size_t find_column(const std::vector<CsvColumn>& columns, const std::string& option, const std::string& which) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == which) return i;
  }
  int number = 0;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), number);
  const auto count = static_cast<int>(columns.size());
  if (error == std::errc{} && end == which.data() + which.size()) {
    if (number >= 1 && number <= count) return static_cast<std::size_t>(number - 1);
    if (number < 0 && number >= -count) return static_cast<std::size_t>(count + number);
  }
  std::vector<std::string> names;
  for (const CsvColumn& column : columns) names.push_back(column.name);
  throw ConfigError(fmt::format("--{} '{}': there is no such column; the {} columns are {}", option, which, count,
                                fmt::join(names, ", ")));
}

}  // namespace

std::vector<CsvColumn> name_columns(const OpenTable& open, const CsvDialect& dialect) {
  std::vector<CsvColumn> columns(dialect.columns);
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].name = fmt::format("column{}", i + 1);
  if (!dialect.header) return columns;
  const auto lines = open();
  std::string line;
  std::vector<std::string> names;
  lines->next(line);
  split_line(*lines, line, dialect.delimiter, names);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (!names[i].empty()) columns[i].name = names[i];
  }
  return columns;
}

void give_roles(std::vector<CsvColumn>& columns, const CsvOptions& options) {
  if (!options.label.empty() && !options.target.empty()) {
    throw ConfigError("--label and --target exclude each other: a table has classes or numbers to predict");
  }
  for (CsvColumn& column : columns) column.role = ColumnRole::number;
  for (const auto& which : options.categorical)
    columns[find_column(columns, "categorical", which)].role = ColumnRole::words;
  for (const auto& which : options.exclude) columns[find_column(columns, "exclude", which)].role = ColumnRole::excluded;
  if (!options.label.empty()) columns[find_column(columns, "label", options.label)].role = ColumnRole::label;
  if (!options.target.empty()) columns[find_column(columns, "target", options.target)].role = ColumnRole::target;
}

const CsvColumn* CsvTable::column_of(ColumnRole role) const {
  const auto found =
      std::find_if(columns.begin(), columns.end(), [role](const CsvColumn& c) { return c.role == role; });
  return found == columns.end() ? nullptr : &*found;
}

std::vector<std::string> CsvTable::feature_names() const {
  std::vector<std::string> names;
  for (const CsvColumn& column : columns) {
    if (column.role == ColumnRole::number) names.push_back(column.name);
    if (column.role != ColumnRole::words) continue;
    for (const std::string& text : column.texts) names.push_back(column.name + "=" + text);
  }
  return names;
}

}  // namespace unisono::data
