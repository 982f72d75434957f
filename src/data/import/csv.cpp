#include <fmt/format.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "import/csv_columns.hpp"
#include "import/raw_rows.hpp"
#include "import/set_writer.hpp"
#include "recipe/recipe_file.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

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

constexpr std::size_t kRowsAtATime = 4096;
constexpr std::size_t kMostNames = 4000;  // an attribute of HDF5 holds 64 KiB: 16 bytes a name

GroupWriter::GroupWriter(SetWriter& writer, const CsvTable& table, Split split, std::int64_t rows)
    : writer_(writer),
      name_(name_of(split)),
      width_(table.feature_names().size()),
      labels_(table.column_of(ColumnRole::label) != nullptr),
      targets_(table.column_of(ColumnRole::target) != nullptr),
      groups_(table.column_of(ColumnRole::group) != nullptr),
      times_(table.column_of(ColumnRole::time) != nullptr),
      weights_(table.column_of(ColumnRole::weight) != nullptr),
      rows_(rows) {
  if (rows == 0) return;
  writer_.create_features<float>(name_, rows, {static_cast<std::int64_t>(width_)});
  if (width_ <= kMostNames) writer_.file().write_attribute(name_ + "/features", "feature_names", table.feature_names());
}

void GroupWriter::add(const CsvRow& row) {
  features_.insert(features_.end(), row.features.begin(), row.features.end());
  if (labels_) all_labels_.push_back(row.label);
  if (targets_) all_targets_.push_back(row.target);
  if (groups_) all_groups_.push_back(row.group);
  if (times_) all_times_.push_back(row.time);
  if (weights_) all_weights_.push_back(row.weight);
  if (features_.size() >= kRowsAtATime * width_) flush();
}

void GroupWriter::flush() {
  const auto count = static_cast<std::int64_t>(features_.size() / width_);
  writer_.write_features(name_, written_, count, features_.data());
  written_ += count;
  features_.clear();
}

void GroupWriter::finish() {
  if (rows_ == 0) return;
  flush();
  if (labels_) writer_.file().write(name_ + "/labels", all_labels_);
  if (targets_) writer_.file().write(name_ + "/targets", all_targets_);
  if (groups_) writer_.file().write(name_ + "/groups", all_groups_);
  if (times_) writer_.file().write(name_ + "/times", all_times_);
  if (weights_) writer_.file().write(name_ + "/weights", all_weights_);
}

using VisitExample = std::function<void(Split, CsvRow&)>;

void for_each_example(const CsvTable& table, const RowSplit& split, const OpenText& open, const OpenText& open_test,
                      const VisitExample& visit) {
  CsvRow row;
  std::int64_t number = 0;
  read_rows(*open(), csv_rows(table.dialect), [&](const LineReader& line, const auto& fields) {
    encode_row(table, line, fields, row);
    visit(split.of(number++), row);
  });
  if (!open_test) return;
  read_rows(*open_test(), csv_rows(table.dialect), [&](const LineReader& line, const auto& fields) {
    encode_row(table, line, fields, row);
    visit(Split::test, row);
  });
}

ImportSummary summarize(const CsvTable& table, const RowSplit& split, const std::string& path) {
  ImportSummary summary;
  summary.path = path;
  summary.train = split.size(Split::train);
  summary.validation = split.size(Split::validation);
  summary.test = split.size(Split::test) + table.test_rows;
  summary.feature_names = table.feature_names();
  summary.shape = {static_cast<std::int64_t>(summary.feature_names.size())};
  if (const CsvColumn* label = table.column_of(ColumnRole::label))
    summary.classes = static_cast<std::int64_t>(label->texts.size());
  summary.targets = table.column_of(ColumnRole::target) != nullptr;
  return summary;
}

void write_recipe(const CsvTable& table, SetWriter& writer) {
  write_recipe(writer.file(), table.recipe);
  if (const CsvColumn* label = table.column_of(ColumnRole::label)) {
    writer.file().write_attribute("", "class_names", label->texts);
    writer.file().write_attribute("", "label_name", label->name);
  }
  if (const CsvColumn* target = table.column_of(ColumnRole::target))
    writer.file().write_attribute("", "target_name", target->name);
}

}  // namespace

std::string write_raw_table(const std::string& path, const Preprocessing& trained, const ImportOutput& output) {
  const OpenText open = text_of(path);
  const CsvTable table = scan_table_for(open, trained);
  SetWriter writer(output);
  GroupWriter group(writer, table, Split::test, table.rows);
  CsvRow row;
  read_rows(*open(), csv_rows(table.dialect), [&](const LineReader& line, const auto& fields) {
    encode_row(table, line, fields, row);
    group.add(row);
  });
  group.finish();
  write_recipe(table, writer);
  writer.finish();
  return table.unusable_label;
}

// The table is read twice: it may be larger than memory.
ImportSummary import_csv(const std::string& path, const CsvOptions& options, const ImportOutput& output) {
  const Shares shares{options.validation_fraction, options.test_fraction, options.seed};
  check_shares(shares, "rows", options.test_file);
  const OpenText open = text_of(path);
  const OpenText open_test = options.test_file.empty() ? OpenText() : text_of(options.test_file);
  const CsvTable table = scan_table(open, open_test, options);
  const RowSplit split(table.rows, shares);
  const ImportSummary summary = summarize(table, split, output.path);
  if (summary.train == 0)
    throw DataError(
        fmt::format("{}: no rows are left for training (the file has {}); use smaller fractions", path, table.rows));

  SetWriter writer(output);
  std::array<GroupWriter, 3> groups = {GroupWriter(writer, table, Split::train, summary.train),
                                       GroupWriter(writer, table, Split::validation, summary.validation),
                                       GroupWriter(writer, table, Split::test, summary.test)};
  for_each_example(table, split, open, open_test,
                   [&](Split to, CsvRow& row) { groups[static_cast<std::size_t>(to)].add(row); });
  for (GroupWriter& group : groups) group.finish();
  write_recipe(table, writer);
  writer.finish();
  return summary;
}

}  // namespace unisono::data
