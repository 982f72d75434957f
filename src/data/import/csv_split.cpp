#include "import/csv_split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

/// Rows that are wanted for validation and test, of so many.
struct HeldOutCounts {
  std::int64_t validation = 0, test = 0;
};

HeldOutCounts wanted_of(std::int64_t rows, const CsvOptions& options) {
  return {share_of(rows, options.validation_fraction), share_of(rows, options.test_fraction)};
}

/// What a table's rows are divided by.
struct DivisionKeys {
  std::vector<std::int64_t> codes;  ///< of groups or classes
  std::vector<double> times;
};

DivisionKeys read_keys(const CsvTable& table, const OpenText& open, TableSplit way) {
  DivisionKeys keys;
  CsvRow row;
  read_rows(*open(), csv_rows(table.dialect), [&](const LineReader& line, const auto& fields) {
    encode_row(table, line, fields, row);
    if (way == TableSplit::time) {
      keys.times.push_back(row.time);
    } else {
      keys.codes.push_back(way == TableSplit::group ? row.group : row.label);
    }
  });
  return keys;
}

/// Numbers from 0 to count − 1 in a random order.
std::vector<std::size_t> in_random_order(std::size_t count, std::uint64_t seed) {
  const KeyedPermutation place(count, RandomStream(seed, Purpose::split));
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[place(i)] = i;
  return order;
}

/// Groups in a random order: each goes to the test if at least half of it still fits there, else to the validation
/// likewise, else to the training.
std::vector<Split> divide_groups(const std::vector<std::int64_t>& groups, const CsvOptions& options) {
  const std::int64_t count = *std::max_element(groups.begin(), groups.end()) + 1;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), 0);
  for (const std::int64_t group : groups) ++sizes[static_cast<std::size_t>(group)];
  HeldOutCounts left = wanted_of(std::ssize(groups), options);
  std::vector<Split> of_group(sizes.size(), Split::train);
  for (const std::size_t group : in_random_order(sizes.size(), options.seed)) {
    const std::int64_t half = (sizes[group] + 1) / 2;
    std::int64_t* const room = half <= left.test ? &left.test : half <= left.validation ? &left.validation : nullptr;
    if (room == nullptr) continue;
    of_group[group] = room == &left.test ? Split::test : Split::validation;
    *room -= sizes[group];
  }
  std::vector<Split> splits;
  for (const std::int64_t group : groups) splits.push_back(of_group[static_cast<std::size_t>(group)]);
  return splits;
}

/// The first rows of an order for the test, the next ones for the validation.
void take_first(const std::vector<std::size_t>& order, const HeldOutCounts& wanted, std::vector<Split>& splits) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    splits[order[i]] = place < wanted.test                       ? Split::test
                       : place < wanted.test + wanted.validation ? Split::validation
                                                                 : Split::train;
  }
}

/// The latest first; of rows of one time, the last.
std::vector<Split> divide_times(const std::vector<double>& times, const CsvOptions& options) {
  std::vector<std::size_t> order(times.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return times[a] > times[b]; });
  std::vector<Split> splits(times.size(), Split::train);
  take_first(order, wanted_of(std::ssize(times), options), splits);
  return splits;
}

TableSplit way_of(const CsvOptions& options) {
  if (options.split != TableSplit::automatic) return options.split;
  return options.group.empty() ? TableSplit::random : TableSplit::group;
}

}  // namespace

std::vector<Split> divide_by_class(const std::vector<std::int64_t>& classes, const Shares& shares) {
  const std::int64_t count = *std::max_element(classes.begin(), classes.end()) + 1;
  std::vector<std::vector<std::size_t>> rows(static_cast<std::size_t>(count));
  for (const std::size_t row : in_random_order(classes.size(), shares.seed))
    rows[static_cast<std::size_t>(classes[row])].push_back(row);
  std::vector<Split> splits(classes.size(), Split::train);
  for (const auto& of_class : rows) {
    const std::int64_t all = std::ssize(of_class);
    take_first(of_class, {share_of(all, shares.validation), share_of(all, shares.test)}, splits);
  }
  return splits;
}

void check_split(const CsvOptions& options) {
  const auto require = [](bool named, const char* way, const char* option) {
    if (!named) throw ConfigError(fmt::format("--split {} needs {}", way, option));
  };
  if (options.split == TableSplit::group) require(!options.group.empty(), "group", "--group");
  if (options.split == TableSplit::time) require(!options.time.empty(), "time", "--time");
  if (options.split == TableSplit::by_class) {
    require(!options.label.empty() && options.task != Task::regression, "class", "--label with classes");
  }
}

TableDivision::TableDivision(const CsvTable& table, const OpenText& open, const CsvOptions& options)
    : RowDivision(table.rows, shares_of(options)), way_(way_of(options)) {
  if (options.validation_fraction + options.test_fraction == 0) way_ = TableSplit::random;
  if (way_ == TableSplit::random) return;
  const DivisionKeys keys = read_keys(table, open, way_);
  choose(way_ == TableSplit::group      ? divide_groups(keys.codes, options)
         : way_ == TableSplit::by_class ? divide_by_class(keys.codes, shares_of(options))
                                        : divide_times(keys.times, options));
  const std::string advice = way_ == TableSplit::group ? "its groups are too large" : "the table is too small";
  for (const Split split : {Split::validation, Split::test}) {
    const double fraction = split == Split::test ? options.test_fraction : options.validation_fraction;
    if (fraction == 0 || size(split) > 0) continue;
    throw DataError(fmt::format("{}: no rows are left for the group '{}': {}; use a larger fraction, or --split random",
                                open()->name(), name_of(split), advice));
  }
}

}  // namespace unisono::data
