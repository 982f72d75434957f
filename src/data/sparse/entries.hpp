#pragma once

#include <vector>

#include "order/slice.hpp"
#include "sparse/schema.hpp"
#include "unisono/tensor/sparse.hpp"

namespace unisono::data {

/// The datasets of a group's entries (COO triples) and the limits of their row and column numbers.
struct EntryColumns {
  std::string rows, columns, values;  ///< datasets
  std::int64_t row_limit = 0, column_limit = 0;
};

/// For ratings and co-occurrences.
EntryColumns entry_columns(const SparseSchema& schema, const SparseGroup& group);

/// Reads entries [range) of the file into `entries`, overwriting it. \throws DataError
void read_entries(const hdf5::File& file, const EntryColumns& from, Range range, std::vector<SparseEntry>& entries);

/// Calls visit(first, entries) for all of [range), piece after piece.
template <typename Visit>
void visit_entries(const hdf5::File& file, const EntryColumns& from, Range range, Visit visit) {
  constexpr std::int64_t kAtATime = 1 << 18;
  std::vector<SparseEntry> entries;
  for (std::int64_t first = range.first; first < range.last; first += kAtATime) {
    read_entries(file, from, {first, std::min(first + kAtATime, range.last)}, entries);
    visit(first, std::span<const SparseEntry>(entries));
  }
}

}  // namespace unisono::data
