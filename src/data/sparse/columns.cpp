#include "sparse/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

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

}  // namespace unisono::data
