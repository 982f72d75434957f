#pragma once

#include <cstdint>
#include <vector>

#include "import/csv_columns.hpp"
#include "import/set_writer.hpp"

namespace unisono::data {

/// \throws ConfigError for a way of dividing rows whose column is not named
void check_split(const CsvOptions& options);

/// At random, the same shares of each class. \param classes of the rows, from 0
std::vector<Split> divide_by_class(const std::vector<std::int64_t>& classes, const Shares& shares);

/// Which group each row of a table belongs to, by one of TableSplit's ways.
class TableDivision : public RowDivision {
 public:
  /// Reads the table once more, unless rows are chosen at random.
  TableDivision(const CsvTable& table, const OpenText& open, const CsvOptions& options);

  TableSplit way() const { return way_; }

 private:
  TableSplit way_;
};

}  // namespace unisono::data
