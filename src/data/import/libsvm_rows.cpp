#include "import/libsvm_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kMostClasses = 1000;  // that are taken for classes unasked
constexpr double kMostLabel = 1e15;         // of a class: written with all of its digits
constexpr std::size_t kShownLabels = 10;

/// In front of a row's indices and values.
struct RowHead {
  double label;
  std::uint64_t count;
};

void note_label(const LineReader& line, const LibsvmRow& row, const LibsvmOptions& options, LibsvmFindings& found) {
  const double label = row.label;
  const bool whole = label == std::trunc(label) && std::abs(label) < kMostLabel;
  if (!whole && options.task == Task::classes)
    line.fail(row.label_at,
              fmt::format("the label {} is not a whole number, so it cannot be a class; use --task regression", label));
  found.whole_labels = found.whole_labels && whole;
  if (found.too_many_labels || !found.whole_labels || options.task == Task::regression) return;
  found.labels.emplace(label, 0);
  found.too_many_labels = options.task == Task::automatic && found.labels.size() > kMostClasses;
}

void check_label(const LineReader& line, const LibsvmRow& row, const std::map<double, std::int32_t>& classes) {
  if (classes.empty() || classes.contains(row.label)) return;
  std::vector<double> shown;
  for (const auto& [known, number] : classes) {
    if (shown.size() < kShownLabels) shown.push_back(known);
  }
  line.fail(row.label_at, fmt::format("the label {} does not occur in the training file, whose classes are {}{}",
                                      row.label, fmt::join(shown, ", "), classes.size() > shown.size() ? ", …" : ""));
}

void note_indices(const LineReader& line, const LibsvmRow& row, const LibsvmOptions& options, LibsvmFindings& found) {
  if (row.indices.empty()) return;
  if (row.indices.front() == 0 && options.base == IndexBase::one)
    line.fail(row.first_at,
              "has the index 0, but the first column has the index 1 (--base 1, or what the model was trained on)");
  found.zero_index = found.zero_index || row.indices.front() == 0;
  if (row.indices.back() > found.largest || found.largest_at.empty()) {
    found.largest = row.indices.back();
    found.largest_at = fmt::format("{}:{}:{}", line.name(), line.number(), row.last_at);
  }
}

}  // namespace

void SpilledRows::add(const LibsvmRow& row) {
  file_.append(RowHead{row.label, row.indices.size()});
  file_.append(std::span<const std::uint32_t>(row.indices));
  file_.append(std::span<const float>(row.values));
  ++size_;
}

void SpilledRows::for_each(const std::function<void(std::int64_t, const LibsvmRow&)>& visit) {
  SpillReader reader(file_);
  LibsvmRow row;
  std::int64_t number = 0;
  for (RowHead head{}; reader.next(head); ++number) {
    row.label = head.label;
    row.indices.resize(head.count);
    row.values.resize(head.count);
    reader.take(std::span(row.indices));
    reader.take(std::span(row.values));
    visit(number, row);
  }
}

void read_libsvm(LineReader& lines, const LibsvmOptions& options, LibsvmFindings& found,
                 const std::map<double, std::int32_t>* classes, const std::function<void(const LibsvmRow& row)>& keep) {
  const RowFormat<LibsvmRow> format{.none = "examples", .parse = parse_libsvm};
  read_rows(lines, format, [&](const LineReader& line, const LibsvmRow& row) {
    classes == nullptr ? note_label(line, row, options, found) : check_label(line, row, *classes);
    note_indices(line, row, options, found);
    found.all_ones =
        found.all_ones && std::all_of(row.values.begin(), row.values.end(), [](float value) { return value == 1; });
    keep(row);
  });
}

std::map<double, std::int32_t> decide_classes(const LibsvmFindings& found, const LibsvmOptions& options) {
  if (options.task == Task::regression || !found.whole_labels || found.too_many_labels) return {};
  std::map<double, std::int32_t> classes = found.labels;
  std::int32_t next = 0;
  for (auto& [label, number] : classes) number = next++;
  return classes;
}

std::int64_t decide_base(const LibsvmFindings& found, const LibsvmOptions& options) {
  if (options.base == IndexBase::automatic) return found.zero_index ? 0 : 1;
  return options.base == IndexBase::zero ? 0 : 1;
}

std::int64_t decide_columns(const LibsvmFindings& found, const LibsvmOptions& options, const std::string& path) {
  const std::int64_t base = decide_base(found, options);
  const std::int64_t needed = found.largest_at.empty() ? 0 : std::int64_t{found.largest} - base + 1;
  if (options.columns == 0 && needed == 0)
    throw DataError(path + ": no example has a value; if that is intended, set --columns");
  if (needed > kMostColumns)
    throw DataError(fmt::format("{}: the index {} needs more than 2³² − 1 columns, counted from {}", found.largest_at,
                                found.largest, base));
  if (options.columns == 0 || needed <= options.columns) return std::max(needed, options.columns);
  throw DataError(fmt::format("{}: the index {} is beyond --columns {}, of which the first has the index {}",
                              found.largest_at, found.largest, options.columns, base));
}

}  // namespace unisono::data
