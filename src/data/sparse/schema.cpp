#include "sparse/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "dense/schema.hpp"
#include "recipe/recipe_file.hpp"
#include "set/external.hpp"
#include "set/form.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

constexpr std::uint64_t kLargestColumn = std::numeric_limits<std::uint32_t>::max();

[[noreturn]] void fail(const hdf5::File& file, const std::string& object, const std::string& what) {
  throw DataError(fmt::format("{}: /{} {}; see docs/data-format.md", file.path(), object, what));
}

/// Values of a one-dimensional dataset of numbers.
std::int64_t length_of(const hdf5::File& file, const std::string& dataset) {
  if (!file.exists(dataset)) fail(file, dataset, "is missing");
  if (!file.is_dataset(dataset)) fail(file, dataset, "is a group, but must be a dataset");
  const hdf5::DatasetShape shape = file.shape(dataset);
  if (!hdf5::is_number(shape.type))
    fail(file, dataset, fmt::format("holds {}, not numbers", hdf5::name_of(shape.type)));
  if (shape.extent.size() != 1 && shape.row_size() != 1) {
    fail(file, dataset, fmt::format("has {} axes, but must have one", shape.extent.size()));
  }
  if (!shape.complete) fail(file, dataset, "was not written completely; make the file again");
  return static_cast<std::int64_t>(shape.rows());
}

void require_integers(const hdf5::File& file, const std::string& dataset) {
  if (!hdf5::is_integer(file.shape(dataset).type)) fail(file, dataset, "must hold integers");
}

void require_length(const hdf5::File& file, const std::string& dataset, std::int64_t length, const std::string& other,
                    std::int64_t expected) {
  if (length == expected) return;
  fail(file, dataset, fmt::format("holds {} but /{} requires {}", count_of(length, "value"), other, expected));
}

std::int64_t length_like(const hdf5::File& file, const SparseGroup& group, std::string_view dataset,
                         std::string_view like) {
  const std::int64_t length = length_of(file, group.path(dataset));
  require_length(file, group.path(dataset), length, group.path(like), length_of(file, group.path(like)));
  return length;
}

void read_answers(const hdf5::File& file, SparseGroup& group) {
  for (const std::string_view name : {"labels", "targets"}) {
    if (!file.exists(group.path(name))) continue;
    const bool is_text = file.is_dataset(group.path(name)) && file.shape(group.path(name)).type == hdf5::Type::text;
    if (name == "labels" && is_text) fail(file, group.path(name), text_labels_hint());
    require_length(file, group.path(name), length_of(file, group.path(name)), group.path("features/indptr"),
                   group.units);
    (name == "labels" ? group.has_labels : group.has_targets) = true;
  }
  if (group.has_labels && group.has_targets) fail(file, group.name, "has labels and targets; remove one of them");
}

Index read_width(const hdf5::File& file, const std::string& group) {
  if (!file.has_attribute(group, "columns")) {
    fail(file, group, "has no attribute 'columns' (the number of columns of the matrix)");
  }
  const auto columns = file.read_attribute<std::int64_t>(group, "columns");
  if (columns < 1 || static_cast<std::uint64_t>(columns) > kLargestColumn) {
    fail(file, group, fmt::format("has {} columns; the number must be 1 to {}", columns, kLargestColumn));
  }
  return columns;
}

void read_rows_group(const hdf5::File& file, SparseSchema& schema, SparseGroup& group) {
  const std::string features = group.path("features");
  const std::int64_t bounds = length_of(file, features + "/indptr");
  if (bounds < 2) fail(file, features + "/indptr", "has no rows");
  require_integers(file, features + "/indptr");
  group.units = bounds - 1;
  group.values = length_of(file, features + "/indices");
  require_integers(file, features + "/indices");
  group.has_data = file.exists(features + "/data");
  if (group.has_data) {
    require_length(file, features + "/data", length_of(file, features + "/data"), features + "/indices", group.values);
  }
  const Index width = read_width(file, features);
  if (schema.columns != 0 && schema.columns != width) {
    fail(file, features, fmt::format("has {} columns, but another group has {}", width, schema.columns));
  }
  schema.columns = width;
  read_answers(file, group);
  if (file.exists(group.path("weights"))) {
    fail(file, group.path("weights"),
         "holds weights of rows, which sparse sets do not support; remove it, or store a table");
  }
}

void read_entries_group(const hdf5::File& file, SparseGroup& group, const std::array<std::string_view, 3>& names) {
  group.units = group.values = length_of(file, group.path(names[2]));
  for (const std::string_view name : {names[0], names[1]}) {
    length_like(file, group, name, names[2]);
    require_integers(file, group.path(name));
  }
  if (group.units == 0) fail(file, group.name, "is empty");
}

void read_text_group(const hdf5::File& file, SparseGroup& group) {
  group.values = length_of(file, group.path("words"));
  require_integers(file, group.path("words"));
  const std::int64_t bounds = length_of(file, group.path("sentences"));
  require_integers(file, group.path("sentences"));
  if (bounds < 2 || group.values == 0) fail(file, group.name, "has no sentences");
  group.units = bounds - 1;
}

void read_group(const hdf5::File& file, SparseSchema& schema, SparseGroup& group) {
  switch (schema.kind) {
    case SetKind::sparse:
      return read_rows_group(file, schema, group);
    case SetKind::ratings:
      return read_entries_group(file, group, {"users", "items", "ratings"});
    case SetKind::text:
      return read_text_group(file, group);
    default:
      return read_entries_group(file, group, {"rows", "columns", "counts"});
  }
}

Index dictionary_size(const hdf5::File& file, const std::string& name) {
  return file.exists("dictionary/" + name) ? static_cast<Index>(file.count_strings("dictionary/" + name)) : 0;
}

void read_dictionary_sizes(const hdf5::File& file, SparseSchema& schema) {
  if (schema.kind == SetKind::ratings) {
    schema.rows = dictionary_size(file, "users");
    schema.columns = dictionary_size(file, "items");
  }
  if (schema.kind == SetKind::text || schema.kind == SetKind::cooccurrences) {
    schema.rows = schema.columns = dictionary_size(file, "words");
    if (schema.rows == 0) fail(file, "dictionary/words", "is missing or empty; it must hold the names of the words");
  }
}

/// What is trained on, and is evaluated meanwhile with targets of the same kind.
void require_training(const hdf5::File& file, const SparseSchema& schema) {
  const auto& train = schema.group(Split::train);
  if (!train) throw DataError(fmt::format("{}: has no group 'train' to train on", file.path()));
  for (const auto& group : schema.groups) {
    if (!group || (group->has_labels == train->has_labels && group->has_targets == train->has_targets)) continue;
    fail(file, group->name,
         "does not have the same kind of labels or targets as /train; all groups need the same kind");
  }
}

constexpr std::int64_t kAtATime = 1 << 18;

template <typename T, typename Visit>
void visit_pieces(const hdf5::File& file, const std::string& dataset, Range range, Visit visit) {
  std::vector<T> values(static_cast<std::size_t>(std::min(range.size(), kAtATime)));
  for (std::int64_t first = range.first; first < range.last; first += kAtATime) {
    const auto count = static_cast<std::size_t>(std::min(kAtATime, range.last - first));
    file.read_rows(dataset, static_cast<std::uint64_t>(first), count, values.data());
    visit(first, std::span<const T>(values.data(), count));
  }
}

}  // namespace

SetKind kind_of(const hdf5::File& file) {
  for (const Split split : kSplits) {
    const std::string group(name_of(split));
    if (!file.exists(group)) continue;
    if (file.exists(group + "/features")) {
      return file.is_dataset(group + "/features") ? SetKind::table : SetKind::sparse;
    }
    if (file.exists(group + "/ratings")) return SetKind::ratings;
    if (file.exists(group + "/words")) return SetKind::text;
    if (file.exists(group + "/tokens")) return SetKind::tokens;
    if (file.exists(group + "/counts")) return SetKind::cooccurrences;
  }
  // The readers report what is missing.
  const bool tells_tokens = file.exists("tokenizer") || file.has_attribute("", "vocabulary");
  return tells_tokens ? SetKind::tokens : SetKind::table;
}

SparseSchema read_sparse_schema(const hdf5::File& file, bool trained) {
  SparseSchema schema;
  schema.path = file.path();
  schema.kind = kind_of(file);
  read_dictionary_sizes(file, schema);
  for (const Split split : kSplits) {
    const std::string name(name_of(split));
    if (!file.exists(name)) continue;
    auto& group = schema.groups[static_cast<std::size_t>(split)].emplace();
    group.name = name;
    read_group(file, schema, group);
  }
  if (!trained) require_training(file, schema);
  if (file.has_attribute("", "classes")) schema.classes = file.read_attribute<std::int64_t>("", "classes");
  schema.recipe = read_recipe(file);
  if (file.has_attribute("", "class_names")) {
    schema.class_names = file.read_attribute<std::vector<std::string>>("", "class_names");
  }
  return schema;
}

void visit_numbers(const hdf5::File& file, const std::string& dataset, Range range, std::int64_t limit,
                   const std::function<void(std::int64_t, std::span<const std::int64_t>)>& visit) {
  visit_pieces<std::int64_t>(file, dataset, range, [&](std::int64_t first, std::span<const std::int64_t> values) {
    const auto bad = std::find_if(values.begin(), values.end(), [&](std::int64_t x) { return x < 0 || x >= limit; });
    if (bad != values.end()) {
      throw DataError(fmt::format("{}: /{}: value {} is {}, but must lie in [0, {})", file.path(), dataset,
                                  first + (bad - values.begin()), *bad, limit));
    }
    visit(first, values);
  });
}

void visit_floats(const hdf5::File& file, const std::string& dataset, Range range,
                  const std::function<void(std::int64_t, std::span<const float>)>& visit) {
  visit_pieces<float>(file, dataset, range, [&](std::int64_t first, std::span<const float> values) {
    const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    if (bad != values.end()) {
      throw DataError(
          fmt::format("{}: /{}: value {} is not finite (NaN, infinite or beyond float32); remove or replace it",
                      file.path(), dataset, first + (bad - values.begin())));
    }
    visit(first, values);
  });
}

std::vector<std::uint64_t> read_offsets(const hdf5::File& file, const std::string& dataset, std::int64_t rows,
                                        std::int64_t end) {
  std::vector<std::uint64_t> offsets(static_cast<std::size_t>(rows) + 1);
  std::int64_t before = 0;
  visit_numbers(file, dataset, {0, rows + 1}, end + 1, [&](std::int64_t first, std::span<const std::int64_t> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] < before) {
        throw DataError(fmt::format("{}: /{}: value {} is {}, less than the one before it", file.path(), dataset,
                                    first + static_cast<std::int64_t>(i), values[i]));
      }
      before = values[i];
      offsets[static_cast<std::size_t>(first) + i] = static_cast<std::uint64_t>(before);
    }
  });
  if (offsets.front() != 0 || static_cast<std::int64_t>(offsets.back()) != end) {
    throw DataError(fmt::format("{}: /{}: goes from {} to {}, but must go from 0 to {}", file.path(), dataset,
                                offsets.front(), offsets.back(), end));
  }
  return offsets;
}

EntryColumns entry_columns(const SparseSchema& schema, const SparseGroup& group) {
  constexpr std::int64_t kAny = std::numeric_limits<std::uint32_t>::max();
  const bool ratings = schema.kind == SetKind::ratings;
  return {.rows = group.path(ratings ? "users" : "rows"),
          .columns = group.path(ratings ? "items" : "columns"),
          .values = group.path(ratings ? "ratings" : "counts"),
          .row_limit = schema.rows == 0 ? kAny : schema.rows,
          .column_limit = schema.columns == 0 ? kAny : schema.columns};
}

void read_entries(const hdf5::File& file, const EntryColumns& from, Range range, std::vector<SparseEntry>& entries) {
  entries.resize(static_cast<std::size_t>(range.size()));
  const auto at = [&](std::int64_t place) -> SparseEntry& {
    return entries[static_cast<std::size_t>(place - range.first)];
  };
  visit_numbers(file, from.rows, range, from.row_limit, [&](std::int64_t first, std::span<const std::int64_t> values) {
    for (const std::int64_t value : values) at(first++).row = static_cast<std::uint32_t>(value);
  });
  visit_numbers(file, from.columns, range, from.column_limit,
                [&](std::int64_t first, std::span<const std::int64_t> values) {
                  for (const std::int64_t value : values) at(first++).column = static_cast<std::uint32_t>(value);
                });
  visit_floats(file, from.values, range, [&](std::int64_t first, std::span<const float> values) {
    for (const float value : values) at(first++).value = value;
  });
}

namespace {

constexpr std::int64_t kWatched = 64;       // examples with the most frequent features, and as many at random
using Watched = std::bitset<2 * kWatched>;  // one bit for each

double share(std::int64_t part, std::int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

/// Calls visit(row, column) for all entries of a sparse matrix, row after row.
template <typename Visit>
void visit_row_columns(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group,
                       const std::vector<std::uint64_t>& offsets, Visit visit) {
  std::size_t row = 0;
  visit_numbers(file, group.path("features/indices"), {0, group.values}, schema.columns,
                [&](std::int64_t first, std::span<const std::int64_t> columns) {
                  for (const std::int64_t column : columns) {
                    while (offsets[row + 1] <= static_cast<std::uint64_t>(first)) ++row;
                    visit(row, static_cast<std::size_t>(column));
                    ++first;
                  }
                });
}

/// How many examples have each column. Where a set has fewer values than columns, only those that occur are kept, so
/// that this takes little memory whatever the model takes.
class ColumnCounts {
 public:
  ColumnCounts(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group,
               const std::vector<std::uint64_t>& offsets) {
    if (group.values < schema.columns) {
      visit_row_columns(file, schema, group, offsets, [&](std::size_t, std::size_t column) {
        occurring_.push_back(static_cast<std::uint32_t>(column));
      });
      std::ranges::sort(occurring_);
      // Clang 14 does not compile what std::ranges::unique returns.
      occurring_.erase(std::unique(occurring_.begin(), occurring_.end()), occurring_.end());
    }
    counts_.resize(occurring_.empty() ? static_cast<std::size_t>(schema.columns) : occurring_.size());
    visit_row_columns(file, schema, group, offsets,
                      [&](std::size_t, std::size_t column) { ++counts_[place_of(column)]; });
  }

  std::int64_t of(std::size_t column) const { return counts_[place_of(column)]; }
  std::int64_t largest() const { return *std::ranges::max_element(counts_); }

 private:
  std::size_t place_of(std::size_t column) const {
    if (occurring_.empty()) return column;
    return static_cast<std::size_t>(std::ranges::lower_bound(occurring_, column) - occurring_.begin());
  }

  std::vector<std::uint32_t> occurring_, counts_;
};

/// Counts for each watched example how many examples share a feature with it. \param watched rows; one may occur twice
std::vector<std::int64_t> count_neighbours(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group,
                                           const std::vector<std::uint64_t>& offsets,
                                           const std::vector<std::size_t>& watched) {
  std::vector<Watched> bits_of_row(static_cast<std::size_t>(group.units));
  for (std::size_t i = 0; i < watched.size(); ++i) bits_of_row[watched[i]].set(i);
  std::unordered_map<std::size_t, Watched> of_column;  // few rows have few columns
  std::vector<Watched> of_row(bits_of_row.size());
  const auto visit_all = [&](auto visit) { visit_row_columns(file, schema, group, offsets, visit); };
  visit_all([&](std::size_t row, std::size_t column) {
    if (bits_of_row[row].any()) of_column[column] |= bits_of_row[row];
  });
  visit_all([&](std::size_t row, std::size_t column) {
    if (const auto found = of_column.find(column); found != of_column.end()) of_row[row] |= found->second;
  });
  std::vector<std::int64_t> neighbours(watched.size());
  for (const Watched& bits : of_row) {
    for (std::size_t i = 0; i < watched.size(); ++i) neighbours[i] += bits[i] ? 1 : 0;
  }
  return neighbours;
}

Sparsity sparsity_of_rows(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group) {
  const auto offsets = read_offsets(file, group.path("features/indptr"), group.units, group.values);
  const auto rows = static_cast<std::size_t>(group.units);
  const ColumnCounts counts(file, schema, group, offsets);
  std::vector<std::int64_t> frequencies(rows);
  visit_row_columns(file, schema, group, offsets,
                    [&](std::size_t row, std::size_t column) { frequencies[row] += counts.of(column); });
  Sparsity sparsity;
  for (std::size_t row = 0; row < rows; ++row) {
    sparsity.omega = std::max(sparsity.omega, static_cast<std::int64_t>(offsets[row + 1] - offsets[row]));
  }
  sparsity.delta = share(counts.largest(), group.units);

  const auto watched = static_cast<std::ptrdiff_t>(std::min(kWatched, group.units));
  std::vector<std::size_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + watched, order.end(),
                    [&](std::size_t a, std::size_t b) { return frequencies[a] > frequencies[b]; });
  order.resize(static_cast<std::size_t>(watched));
  const KeyedPermutation permuted(rows, RandomStream(0, Purpose::order));
  for (std::ptrdiff_t i = 0; i < watched; ++i) {
    order.push_back(static_cast<std::size_t>(permuted(static_cast<std::uint64_t>(i))));
  }
  const auto neighbours = count_neighbours(file, schema, group, offsets, order);
  const auto random = neighbours.begin() + watched;
  sparsity.rho = share(*std::max_element(neighbours.begin(), random), group.units);
  sparsity.rho_at_random = share(std::accumulate(random, neighbours.end(), std::int64_t{0}),
                                 group.units * static_cast<std::int64_t>(watched));
  return sparsity;
}

/// A rating overlaps with all ratings of its user and all of its item.
Sparsity sparsity_of_ratings(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group) {
  std::vector<std::int64_t> of_user, of_item;
  const auto count = [](std::vector<std::int64_t>& counts, std::size_t line) {
    if (counts.size() <= line) counts.resize(line + 1);
    ++counts[line];
  };
  const auto visit_all = [&](auto visit) {
    visit_entries(file, entry_columns(schema, group), {0, group.units},
                  [&](std::int64_t, std::span<const SparseEntry> entries) {
                    for (const SparseEntry& entry : entries) visit(entry);
                  });
  };
  visit_all([&](const SparseEntry& entry) {
    count(of_user, entry.row);
    count(of_item, entry.column);
  });
  std::int64_t most = 0;
  double sum = 0;
  visit_all([&](const SparseEntry& entry) {
    const std::int64_t neighbours = of_user[entry.row] + of_item[entry.column] - 1;
    most = std::max(most, neighbours);
    sum += static_cast<double>(neighbours);
  });
  const auto n = static_cast<double>(group.units);
  const std::int64_t largest =
      std::max(*std::max_element(of_user.begin(), of_user.end()), *std::max_element(of_item.begin(), of_item.end()));
  return {
      .omega = 2, .delta = share(largest, group.units), .rho = share(most, group.units), .rho_at_random = sum / n / n};
}

}  // namespace

std::optional<Sparsity> sparsity_of(const DataSettings& settings) {
  check_seal(settings.path);
  const hdf5::File file = open_set_file(settings);
  const SetKind kind = kind_of(file);
  if (kind != SetKind::sparse && kind != SetKind::ratings) return {};
  const SparseSchema schema = read_sparse_schema(file, false);
  const SparseGroup& group = *schema.group(Split::train);
  if (group.values == 0) return Sparsity{};
  return kind == SetKind::sparse ? sparsity_of_rows(file, schema, group) : sparsity_of_ratings(file, schema, group);
}

}  // namespace unisono::data
