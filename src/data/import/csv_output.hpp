#pragma once

#include <string>
#include <vector>

#include "import/csv_columns.hpp"
#include "import/row_split.hpp"
#include "import/set_writer.hpp"

namespace unisono::data {

/// Collects the rows of one group, and writes them some thousands at a time.
class GroupWriter {
 public:
  /// Makes no group where there are no rows.
  GroupWriter(SetWriter& writer, const CsvTable& table, Split split, std::int64_t rows);
  void add(const CsvRow& row);
  void finish();

 private:
  void flush();

  SetWriter& writer_;
  std::string name_;
  std::size_t width_;
  bool labels_, targets_, groups_, times_, weights_;
  std::int64_t rows_, written_ = 0;
  std::vector<float> features_, all_targets_, all_weights_;
  std::vector<std::int64_t> all_labels_, all_groups_;
  std::vector<double> all_times_;
};

}  // namespace unisono::data
