#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "import/csv_dialect.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

enum class ColumnRole { number, words, label, target, excluded };

struct CsvColumn {
  std::string name;
  ColumnRole role = ColumnRole::excluded;
  std::map<std::string, std::int64_t> codes;  ///< words and labels: text → its number
  std::vector<std::string> texts;             ///< by number; of equal numbers ("1", "1.0") the first

  bool has_codes() const { return role == ColumnRole::words || role == ColumnRole::label; }
};

/// A table after its first reading: what each column is, and that every value can be used.
struct CsvTable {
  CsvDialect dialect;
  std::vector<CsvColumn> columns;
  std::int64_t rows = 0;       ///< of the table
  std::int64_t test_rows = 0;  ///< of the second table

  const CsvColumn* column_of(ColumnRole role) const;  ///< null: there is none
  std::vector<std::string> feature_names() const;     ///< "age", "colour=red", …
};

/// Names from the header, or numbers where there is none.
std::vector<CsvColumn> name_columns(const OpenTable& open, const CsvDialect& dialect);

/// Roles from the options; what they do not name is a feature, of numbers until the first row shows words.
/// \throws ConfigError for a column that is not there
void give_roles(std::vector<CsvColumn>& columns, const CsvOptions& options);

using VisitRow = std::function<void(const LineReader& line, const std::vector<std::string>& fields)>;

/// Visits the rows below the header.
/// \throws DataError naming a line that has other than the dialect's number of fields
void for_each_row(const OpenTable& open, const CsvDialect& dialect, const VisitRow& visit);

/// Reads a table, and a second one with the same columns where `open_test` is not empty.
/// \throws DataError naming line and column of a value that is missing, or is no number where others are
/// \throws ConfigError for a column that is not there
CsvTable scan_table(const OpenTable& open, const OpenTable& open_test, const CsvOptions& options);

/// The values of a row: one float for each feature. \param label −1 where there are no labels
struct CsvRow {
  std::vector<float> features;
  std::int64_t label = -1;
  float target = 0;
};
void encode_row(const CsvTable& table, const LineReader& line, const std::vector<std::string>& fields, CsvRow& row);

}  // namespace unisono::data
