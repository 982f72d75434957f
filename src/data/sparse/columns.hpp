#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "order/schedule.hpp"
#include "sparse/schema.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/tensor/features.hpp"

// One-dimensional datasets, read a piece at a time and checked.
namespace unisono::data {

/// Reads whole numbers in [0, limit), and calls visit(first, values) for piece after piece.
/// \throws DataError naming the place of the first other value
void visit_numbers(const hdf5::File& file, const std::string& dataset, Range range, std::int64_t limit,
                   const std::function<void(std::int64_t first, std::span<const std::int64_t> values)>& visit);

/// Reads finite numbers, likewise. \throws DataError naming the place of the first other value
void visit_floats(const hdf5::File& file, const std::string& dataset, Range range,
                  const std::function<void(std::int64_t first, std::span<const float> values)>& visit);

/// Reads the rows + 1 offsets of rows (CSR) or sentences, and checks that they begin at 0, never decrease, and end at
/// `end`. \throws DataError
std::vector<std::uint64_t> read_offsets(const hdf5::File& file, const std::string& dataset, std::int64_t rows,
                                        std::int64_t end);

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
