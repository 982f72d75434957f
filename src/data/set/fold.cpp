#include "set/fold.hpp"

#include <fmt/format.h>

#include <map>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

void require_rows(std::span<const std::int64_t> part, std::int64_t rows, const std::string& path) {
  std::int64_t before = -1;
  for (const std::int64_t row : part) {
    if (row <= before || row >= rows) {
      throw DataError(fmt::format("{}: a fold has row {} after row {}; its rows must ascend and lie in [0, {})", path,
                                  row, before, rows));
    }
    before = row;
  }
}

}  // namespace

void require_folds_possible(const DataSettings& settings, SetKind kind, bool resident) {
  if (kind == SetKind::text || kind == SetKind::cooccurrences || kind == SetKind::tokens) {
    throw ConfigError(
        fmt::format("data.path: {} holds {}, which cannot be divided into folds", settings.path, name_of(kind)));
  }
  if (!resident) {
    throw ConfigError(
        fmt::format("data.reader: folds need the data set in memory, but {} is streamed; set data.reader "
                    "= \"resident\"",
                    settings.path));
  }
  if (kind == SetKind::table && settings.partition == Partition::fixed) {
    throw ConfigError("data.partition = \"fixed\": folds need one copy of the whole set; use \"global\"");
  }
  if (settings.validation_fraction > 0) {
    throw ConfigError(fmt::format("data.validation_fraction = {}: the folds say which examples are held out; remove it",
                                  settings.validation_fraction));
  }
}

void require_fold(const Fold& fold, std::int64_t rows, const std::string& path) {
  if (fold.train.empty()) throw DataError(fmt::format("{}: a fold has no training examples", path));
  require_rows(fold.train, rows, path);
  require_rows(fold.validation, rows, path);
  auto train = fold.train.begin();
  for (const std::int64_t row : fold.validation) {
    train = std::lower_bound(train, fold.train.end(), row);
    if (train != fold.train.end() && *train == row) {
      throw DataError(fmt::format("{}: a fold has row {} for training and for validation", path, row));
    }
  }
}

FileRows runs_of(std::span<const std::int64_t> rows) {
  FileRows runs;
  for (const std::int64_t row : rows) runs.append(row, 1);
  runs.index();
  return runs;
}

constexpr const char* kGroups = "train/groups";

bool has_groups(const hdf5::File& file, std::int64_t rows) {
  if (!file.exists(kGroups) || !file.is_dataset(kGroups)) return false;
  const hdf5::DatasetShape shape = file.shape(kGroups);
  if (shape.extent.size() == 1 && static_cast<std::int64_t>(shape.rows()) == rows) return true;
  throw DataError(
      fmt::format("{}: /{} must have one number for each of the {} training examples; correct it, or set "
                  "data.split_by = \"rows\"",
                  file.path(), kGroups, grouped(rows)));
}

namespace {

/// The examples of each group, ascending; the groups in the order of their values.
std::vector<std::vector<std::int64_t>> rows_of_groups(const std::vector<std::int64_t>& column) {
  std::map<std::int64_t, std::vector<std::int64_t>> by_value;
  for (std::size_t row = 0; row < column.size(); ++row) by_value[column[row]].push_back(static_cast<std::int64_t>(row));
  std::vector<std::vector<std::int64_t>> groups;
  for (auto& [value, rows] : by_value) groups.push_back(std::move(rows));
  return groups;
}

}  // namespace

std::optional<GroupDivision> divide_by_groups(const DataSettings& settings, const hdf5::File& file, std::int64_t rows) {
  const bool is_wanted = settings.validation_fraction > 0 && settings.split_by != SplitBy::rows;
  if (!is_wanted || (settings.split_by == SplitBy::automatic && !has_groups(file, rows))) return std::nullopt;
  const auto groups = rows_of_groups(read_training_column(settings, "groups"));
  const KeyedPermutation place(groups.size(),
                               RandomStream(static_cast<std::uint64_t>(settings.split_seed), Purpose::split));
  std::vector<std::size_t> order(groups.size());
  for (std::size_t group = 0; group < groups.size(); ++group) order[place(group)] = group;
  std::int64_t left = validation_units(rows, settings.validation_fraction);
  GroupDivision division{.fold = {}, .groups = std::ssize(groups)};
  for (const std::size_t group : order) {
    const std::int64_t size = std::ssize(groups[group]);
    const bool held_out = (size + 1) / 2 <= left;
    std::vector<std::int64_t>& part = held_out ? division.fold.validation : division.fold.train;
    part.insert(part.end(), groups[group].begin(), groups[group].end());
    if (!held_out) continue;
    ++division.held_out;
    left -= size;
  }
  if (division.held_out == 0 || division.held_out == division.groups) {
    throw DataError(
        fmt::format("{}: /{} has {}, none of which can be held out whole for data.validation_fraction = {} of {}; "
                    "change the fraction, or set data.split_by = \"rows\"",
                    settings.path, kGroups, count_of(division.groups, "group"), settings.validation_fraction,
                    count_of(rows, "example")));
  }
  std::ranges::sort(division.fold.train);
  std::ranges::sort(division.fold.validation);
  return division;
}

std::uint64_t identity_of(const Fold& fold, std::uint64_t set) {
  const std::uint64_t train = hash_bytes(std::as_bytes(std::span(fold.train)), set);
  return hash_bytes(std::as_bytes(std::span(fold.validation)), train);
}

}  // namespace unisono::data
