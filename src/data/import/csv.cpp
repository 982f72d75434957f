#include <fmt/format.h>

#include <array>
#include <functional>

#include "import/csv_columns.hpp"
#include "import/csv_output.hpp"
#include "import/raw_table.hpp"
#include "import/set_writer.hpp"
#include "recipe/recipe_file.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

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

}  // namespace unisono::data

namespace unisono::data {

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
