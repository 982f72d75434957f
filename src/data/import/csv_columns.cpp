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
  throw ConfigError(
      fmt::format("--{} '{}': there is no such column; choose from {}", option, which, fmt::join(names, ", ")));
}

}  // namespace

std::vector<CsvColumn> name_columns(const OpenText& open, const CsvDialect& dialect) {
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
    throw ConfigError("--label and --target cannot be combined; use --label for classes, or --target for numbers");
  }
  for (CsvColumn& column : columns) {
    column.role = ColumnRole::number;
    column.decided = false;
  }
  std::vector<std::string> given(columns.size());  // the option that named each column
  const auto give = [&](const std::string& option, const std::string& which, ColumnRole role) {
    if (which.empty()) return;
    const std::size_t i = find_column(columns, option, which);
    const bool texts = role == ColumnRole::label || role == ColumnRole::group;  // which categories are, too
    if (!given[i].empty() && given[i] != option && !(texts && given[i] == "categorical")) {
      throw ConfigError(
          fmt::format("--{} and --{} both name column '{}'; remove one of them", given[i], option, columns[i].name));
    }
    given[i] = option;
    columns[i].role = role;
    columns[i].decided = true;
  };
  for (const auto& which : options.categorical) give("categorical", which, ColumnRole::words);
  for (const auto& which : options.exclude) give("exclude", which, ColumnRole::excluded);
  give("group", options.group, ColumnRole::group);
  give("time", options.time, ColumnRole::time);
  give("weight", options.weight, ColumnRole::weight);
  give("label", options.label, ColumnRole::label);
  give("target", options.target, ColumnRole::target);
}

void fail_at(const LineReader& line, const CsvColumn& column, const std::string& what) {
  line.fail(fmt::format("column '{}': {}", column.name, what));
}

void list_features(CsvTable& table) {
  table.recipe.header = table.dialect.header;
  table.recipe.fields = static_cast<std::int64_t>(table.dialect.columns);
  for (const CsvColumn& column : table.columns) {
    if (column.role == ColumnRole::number) table.recipe.columns.push_back({.name = column.name});
    if (column.role != ColumnRole::words) continue;
    table.recipe.columns.push_back({.name = column.name, .kind = ColumnKind::category, .levels = column.texts});
  }
}

const CsvColumn* CsvTable::column_of(ColumnRole role) const {
  const auto found =
      std::find_if(columns.begin(), columns.end(), [role](const CsvColumn& c) { return c.role == role; });
  return found == columns.end() ? nullptr : &*found;
}

std::vector<std::string> CsvTable::feature_names() const {
  std::vector<std::string> names;
  for (const CsvColumn& column : columns) {
    if (column.is_feature()) names.push_back(column.name);
  }
  return names;
}

}  // namespace unisono::data
