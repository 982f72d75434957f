#pragma once

#include <string>
#include <vector>

#include "import/csv_columns.hpp"
#include "import/row_split.hpp"
#include "import/set_writer.hpp"

namespace unisono::data {

/// Mean and deviation of the features that are numbers, over the rows that are added. Welford, Technometrics 1962.
class Standardizer {
 public:
  explicit Standardizer(const CsvTable& table);
  void add(const std::vector<float>& features);
  /// Changes nothing where no row was added.
  void apply(std::vector<float>& features) const;

 private:
  std::vector<bool> numeric_;
  std::vector<double> mean_, squares_;
  double count_ = 0;
};

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
  bool labels_, targets_;
  std::int64_t rows_, written_ = 0;
  std::vector<float> features_, all_targets_;
  std::vector<std::int64_t> all_labels_;
};

}  // namespace unisono::data
