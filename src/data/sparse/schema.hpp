#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {

/// One group of a set that is no table.
struct SparseGroup {
  std::string name;
  std::int64_t units = 0;   ///< rows, entries or sentences
  std::int64_t values = 0;  ///< entries of the rows, or words of the sentences; else as `units`
  bool has_data = false;    ///< sparse rows: values of their own, else all are 1
  bool has_labels = false, has_targets = false;
  std::vector<std::int32_t> classes = {};     ///< of a stored label the model's class, or −1; empty: the same
  std::vector<std::string> class_names = {};  ///< of stored labels, beside `classes`

  std::string path(std::string_view dataset) const { return name + "/" + std::string(dataset); }
  /// Words for text, else units: what is counted as examples.
  std::int64_t examples(SetKind kind) const { return kind == SetKind::text ? values : units; }
};

/// What a file of such a set says of itself, before its values are read.
struct SparseSchema {
  std::string path;
  SetKind kind = SetKind::sparse;
  std::array<std::optional<SparseGroup>, 3> groups;  ///< by Split
  Index rows = 0, columns = 0;                       ///< as in DatasetInfo; 0 where only the values tell
  std::optional<std::int64_t> classes;               ///< where the file states it
  std::vector<std::string> class_names;
  Recipe recipe;  ///< of LIBSVM: the first column's index; empty: nobody says

  const std::optional<SparseGroup>& group(Split split) const { return groups[static_cast<std::size_t>(split)]; }
};

/// What kind of set a file holds. \throws DataError where it holds none
SetKind kind_of(const hdf5::File& file);

/// Reads shapes, types and attributes, and checks that they fit together. \param trained whether the set is only to be
/// evaluated, so that there need be no group 'train'. \throws DataError naming the dataset that is wrong
SparseSchema read_sparse_schema(const hdf5::File& file, bool trained);

}  // namespace unisono::data
