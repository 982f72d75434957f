#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

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

}  // namespace unisono::data
