#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "describe/figures.hpp"
#include "describe/sparse_sets.hpp"
#include "import/columns.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kShownRows = 5, kShownEntriesOfRow = 8;

[[noreturn]] void fail(const hdf5::File& file, const std::string& dataset, const std::string& what) {
  throw DataError(fmt::format("{}: /{}: {}", file.path(), dataset, what));
}

std::string rows_text(const hdf5::File& file, const std::string& features, std::int64_t columns) {
  ColumnReader<std::uint64_t> indptr(file, features + "/indptr");
  const std::uint64_t nonzeros = file.shape(features + "/indices").rows();
  Tally lengths;
  std::uint64_t begin = 0, end = 0;
  if (!indptr.next(begin) || begin != 0) fail(file, features + "/indptr", "must begin with 0");
  for (; indptr.next(end); begin = end) {
    if (end < begin || end > nonzeros)
      fail(file, features + "/indptr",
           fmt::format("holds {} after {}; the values must ascend and be at most {}, the number of indices", end, begin,
                       nonzeros));
    lengths.add(static_cast<double>(end - begin));
  }
  if (lengths.count() == 0) fail(file, features + "/indptr", "has no rows");
  return fmt::format("  features  {} values, {:.3g} % of all entries of {} columns\n            values per row {}\n",
                     grouped(static_cast<std::int64_t>(nonzeros)),
                     100 * static_cast<double>(nonzeros) / lengths.count() / static_cast<double>(columns),
                     grouped(columns), survey_text(lengths.survey(0)));
}

std::string columns_text(const hdf5::File& file, const std::string& features, std::int64_t columns) {
  ColumnReader<std::uint32_t> indices(file, features + "/indices");
  std::unordered_set<std::uint32_t> used;
  for (std::uint32_t index = 0; indices.next(index);) {
    if (index >= columns)
      fail(file, features + "/indices",
           fmt::format("holds the column {}, but there are only {} columns, numbered from 0", index, columns));
    used.insert(index);
  }
  return fmt::format("            columns with values: {}\n", grouped(static_cast<std::int64_t>(used.size())));
}

Tally tally_of(const hdf5::File& file, const std::string& dataset) {
  ColumnReader<float> values(file, dataset);
  Tally tally;
  for (float value = 0; values.next(value);) tally.add(value);
  return tally;
}

std::string stored_values_text(const hdf5::File& file, const std::string& features) {
  if (!file.exists(features + "/data")) return "            all values are 1\n";
  const Tally tally = tally_of(file, features + "/data");
  return tally.count() > 0 ? fmt::format("            values {}\n", survey_text(tally.survey(0))) : "";
}

std::string labels_text(const hdf5::File& file, const std::string& dataset) {
  ColumnReader<std::int64_t> labels(file, dataset);
  std::vector<std::int64_t> counts;
  constexpr std::int64_t most = 1 << 24;  // largest number of classes that is counted
  for (std::int64_t label = 0; labels.next(label); ++counts[static_cast<std::size_t>(label)]) {
    if (label < 0 || label >= most)
      fail(file, dataset, fmt::format("holds the label {}; labels are class numbers from 0 up", label));
    if (label >= static_cast<std::int64_t>(counts.size())) counts.resize(static_cast<std::size_t>(label) + 1);
  }
  if (counts.empty()) return "";
  std::vector<std::string> names;
  if (file.has_attribute("", "class_names")) names = file.read_attribute<std::vector<std::string>>("", "class_names");
  return labels_line(hdf5::name_of(file.shape(dataset).type), counts) + balance_text(counts, names);
}

std::string targets_text(const hdf5::File& file, const std::string& dataset) {
  const Tally tally = tally_of(file, dataset);
  return tally.count() > 0 ? fmt::format("  targets   {}\n", survey_text(tally.survey(0))) : "";
}

/// "  3:1, 11:0.5, …" of the first rows.
std::string examples_text(const hdf5::File& file, const std::string& features) {
  ColumnReader<std::uint64_t> indptr(file, features + "/indptr");
  std::string text;
  std::uint64_t begin = 0, end = 0;
  indptr.next(begin);
  for (std::size_t row = 0; row < kShownRows && indptr.next(end); ++row, begin = end) {
    const std::size_t shown = std::min<std::size_t>(end - begin, kShownEntriesOfRow);
    std::vector<std::uint32_t> indices(shown);
    std::vector<float> values(shown, 1);
    file.read_rows(features + "/indices", begin, shown, indices.data());
    if (file.exists(features + "/data")) file.read_rows(features + "/data", begin, shown, values.data());
    std::vector<std::string> entries;
    for (std::size_t i = 0; i < shown; ++i) entries.push_back(fmt::format("{}:{:.5g}", indices[i], values[i]));
    text += fmt::format("  {}{}\n", fmt::join(entries, ", "), shown < end - begin ? ", …" : "");
  }
  return text;
}

}  // namespace

std::string describe_csr(const hdf5::File& file) {
  std::string text, first;
  std::int64_t columns = 0;
  for (const std::string group : {"train", "validation", "test"}) {
    const std::string features = group + "/features";
    if (!file.exists(features)) continue;
    columns = file.read_attribute<std::int64_t>(features, "columns");
    if (columns < 1)
      fail(file, features, fmt::format("has the attribute columns = {}; it must be at least 1", columns));
    text += fmt::format("\n{}: {} examples\n", group,
                        grouped(static_cast<std::int64_t>(file.shape(features + "/indptr").rows()) - 1));
    text +=
        rows_text(file, features, columns) + columns_text(file, features, columns) + stored_values_text(file, features);
    if (file.exists(group + "/labels")) text += labels_text(file, group + "/labels");
    if (file.exists(group + "/targets")) text += targets_text(file, group + "/targets");
    if (first.empty())
      first = fmt::format("\nfirst examples of {}, column:value\n", group) + examples_text(file, features);
  }
  return title_text(file) + fmt::format("sparse examples of {} columns\n", grouped(columns)) + text + first;
}

}  // namespace unisono::data
