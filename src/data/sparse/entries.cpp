#include "sparse/entries.hpp"

#include <limits>

#include "sparse/columns.hpp"

namespace unisono::data {

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
