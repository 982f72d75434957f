#include "unisono/data/dataset.hpp"

#include <algorithm>
#include <bitset>
#include <numeric>
#include <vector>

#include "order/schedule.hpp"
#include "set/seal.hpp"
#include "sparse/schema.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
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

/// Counts for each watched example how many examples share a feature with it. \param watched rows; one may occur twice
std::vector<std::int64_t> count_neighbours(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group,
                                           const std::vector<std::uint64_t>& offsets,
                                           const std::vector<std::size_t>& watched) {
  std::vector<Watched> bits_of_row(static_cast<std::size_t>(group.units));
  for (std::size_t i = 0; i < watched.size(); ++i) bits_of_row[watched[i]].set(i);
  std::vector<Watched> of_column(static_cast<std::size_t>(schema.columns)), of_row(bits_of_row.size());
  const auto visit_all = [&](auto visit) { visit_row_columns(file, schema, group, offsets, visit); };
  visit_all([&](std::size_t row, std::size_t column) { of_column[column] |= bits_of_row[row]; });
  visit_all([&](std::size_t row, std::size_t column) { of_row[row] |= of_column[column]; });
  std::vector<std::int64_t> neighbours(watched.size());
  for (const Watched& bits : of_row) {
    for (std::size_t i = 0; i < watched.size(); ++i) neighbours[i] += bits[i] ? 1 : 0;
  }
  return neighbours;
}

Sparsity sparsity_of_rows(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group) {
  const auto offsets = read_offsets(file, group.path("features/indptr"), group.units, group.values);
  const auto rows = static_cast<std::size_t>(group.units);
  std::vector<std::int64_t> frequency(static_cast<std::size_t>(schema.columns)), frequencies(rows);
  visit_row_columns(file, schema, group, offsets, [&](std::size_t, std::size_t column) { ++frequency[column]; });
  visit_row_columns(file, schema, group, offsets,
                    [&](std::size_t row, std::size_t column) { frequencies[row] += frequency[column]; });
  Sparsity sparsity;
  for (std::size_t row = 0; row < rows; ++row) {
    sparsity.omega = std::max(sparsity.omega, static_cast<std::int64_t>(offsets[row + 1] - offsets[row]));
  }
  sparsity.delta = share(*std::max_element(frequency.begin(), frequency.end()), group.units);

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
  const hdf5::File file(settings.path, hdf5::File::Mode::read);
  const SetKind kind = kind_of(file);
  if (kind != SetKind::sparse && kind != SetKind::ratings) return {};
  const SparseSchema schema = read_sparse_schema(file, false);
  const SparseGroup& group = *schema.group(Split::train);
  if (group.values == 0) return Sparsity{};
  return kind == SetKind::sparse ? sparsity_of_rows(file, schema, group) : sparsity_of_ratings(file, schema, group);
}

}  // namespace unisono::data
