#include "dense/labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kRowsAtATime = 1 << 18;
constexpr double kLimit = 2147483648.0;          // labels are kept as int32
constexpr std::int32_t kMostUnstated = 1 << 20;  // most classes of a set that does not state their number

[[noreturn]] void fail(const hdf5::File& file, const std::string& dataset, std::int64_t row, double label) {
  throw DataError(fmt::format("{}: /{}: example {} has the label {}; labels are whole numbers from 0 up", file.path(),
                              dataset, row, label));
}

}  // namespace

void read_labels(const hdf5::File& file, const std::string& dataset, Range rows, std::int32_t* labels) {
  std::vector<double> values(static_cast<std::size_t>(std::min(rows.size(), kRowsAtATime)));
  for (std::int64_t first = rows.first; first < rows.last; first += kRowsAtATime) {
    const std::int64_t count = std::min(kRowsAtATime, rows.last - first);
    file.read_rows(dataset, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(count), values.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = values[static_cast<std::size_t>(i)];
      if (!(value >= 0 && value < kLimit && value == std::floor(value))) fail(file, dataset, first + i, value);
      *labels++ = static_cast<std::int32_t>(value);
    }
  }
}

std::string text_labels_hint() {
  return "holds text; store whole numbers 0 … K−1, and the names in the file's attribute class_names, with h5py: "
         "names, numbers = numpy.unique(labels, return_inverse=True); "
         "f[\"train/labels\"], f.attrs[\"class_names\"] = numbers, names.tolist()";
}

std::vector<std::int32_t> read_strata(const hdf5::File& file, const std::string& dataset, std::int64_t examples) {
  constexpr std::int32_t kMostStrata = 1 << 20;
  std::vector<std::int32_t> labels(static_cast<std::size_t>(examples));
  read_labels(file, dataset, {0, examples}, labels.data());
  if (*std::max_element(labels.begin(), labels.end()) >= kMostStrata) return {};
  return labels;
}

std::vector<std::int64_t> count_labels(const hdf5::File& file, const std::string& dataset, const RowRuns& rows,
                                       std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  const std::vector<RowRuns::Run> runs = rows.runs({0, rows.size()});
  if (runs.empty()) return counts;
  const Range all{runs.front().first_row, runs.back().first_row + runs.back().rows};
  std::vector<std::int32_t> labels(static_cast<std::size_t>(std::min(all.size(), kRowsAtATime)));
  auto run = runs.begin();
  for (std::int64_t first = all.first; first < all.last; first += kRowsAtATime) {
    const Range part{first, std::min(first + kRowsAtATime, all.last)};
    read_labels(file, dataset, part, labels.data());
    for (; run != runs.end() && run->first_row < part.last; ++run) {
      const std::int64_t begin = std::max(run->first_row, part.first), end = run->first_row + run->rows;
      for (std::int64_t row = begin; row < std::min(end, part.last); ++row) {
        ++counts[static_cast<std::size_t>(labels[static_cast<std::size_t>(row - part.first)])];
      }
      if (end > part.last) break;  // the run continues in the next part
    }
  }
  return counts;
}

std::int32_t largest_label(const hdf5::File& file, const std::string& dataset, Range rows) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(std::min(rows.size(), kRowsAtATime)));
  std::int32_t largest = -1;
  for (std::int64_t first = rows.first; first < rows.last; first += kRowsAtATime) {
    const Range part{first, std::min(first + kRowsAtATime, rows.last)};
    read_labels(file, dataset, part, labels.data());
    largest = std::max(largest, *std::max_element(labels.begin(), labels.begin() + part.size()));
  }
  return largest;
}

std::int64_t count_classes(const SetSchema& set, const std::array<std::int32_t, 3>& largest) {
  const std::int32_t training = largest[static_cast<std::size_t>(Split::train)];
  const std::int32_t shown = training >= 0 ? training : *std::max_element(largest.begin(), largest.end());
  const std::int64_t classes = set.classes ? *set.classes : std::int64_t{shown} + 1;
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    const std::int32_t label = largest[static_cast<std::size_t>(split)];
    if (label < classes && (set.classes || label < kMostUnstated)) continue;
    if (!set.classes && label >= kMostUnstated) {
      throw DataError(fmt::format(
          "{}: /{}/labels: a label is {}; a set with more than {} classes needs the file attribute 'classes'", set.path,
          name_of(split), label, kMostUnstated));
    }
    const std::string source = set.classes
                                   ? "the file's attribute 'classes' or 'class_names' states; correct one of them"
                                   : "the training labels show; if there are more, set the file's attribute 'classes'";
    throw DataError(fmt::format("{}: /{}/labels: a label is {}, which is out of range for the {} classes that {}",
                                set.path, name_of(split), label, classes, source));
  }
  return classes;
}

}  // namespace unisono::data
