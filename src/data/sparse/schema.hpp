#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "order/schedule.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::data {

/// One group of a set that is not a table.
struct SparseGroup {
  std::string name;
  std::int64_t units = 0;   ///< rows, entries or sentences
  std::int64_t values = 0;  ///< non-zeros of the rows, or words of the sentences; otherwise as `units`
  bool has_data = false;    ///< sparse rows: whether the values are stored; if not, all are 1
  bool has_labels = false, has_targets = false;
  std::vector<std::int32_t> classes = {};  ///< the model's class for each stored label, or −1; empty: the label itself
  std::vector<std::string> class_names = {};  ///< names of the stored labels, parallel to `classes`

  std::string path(std::string_view dataset) const { return name + "/" + std::string(dataset); }
  /// The number of examples: words for text, otherwise units.
  std::int64_t examples(SetKind kind) const { return kind == SetKind::text ? values : units; }
};

/// What a file's metadata say about such a set, before its values are read.
struct SparseSchema {
  std::string path;
  SetKind kind = SetKind::sparse;
  std::array<std::optional<SparseGroup>, 3> groups;  ///< by Split
  Index rows = 0, columns = 0;                       ///< as in DatasetInfo; 0 if only the values tell
  std::optional<std::int64_t> classes;               ///< if the file states it
  std::vector<std::string> class_names;
  Recipe recipe;  ///< for sets from LIBSVM: the index of the first column; may be empty

  const std::optional<SparseGroup>& group(Split split) const { return groups[static_cast<std::size_t>(split)]; }
};

/// The kind of set that a file holds. \throws DataError if it is not a set
SetKind kind_of(const hdf5::File& file);

/// Reads shapes, types and attributes, and checks that they fit together. \param trained whether the set is only
/// evaluated with a trained model, and needs no group 'train'. \throws DataError naming the dataset that is wrong
SparseSchema read_sparse_schema(const hdf5::File& file, bool trained);

// One-dimensional datasets, read a piece at a time and checked.

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
