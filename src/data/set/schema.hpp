#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::data {

/// One group of a set: "train", "validation" or "test". A feature's value is scale · stored + offset.
struct GroupSchema {
  std::string name;
  std::int64_t examples = 0;
  FeatureShape features;
  hdf5::DatasetShape stored;  ///< of the features
  Storage storage = Storage::float32;
  float scale = 1, offset = 0;
  bool has_labels = false;
  Index target_size = 0;  ///< values of a target in the file; 0 where there are none

  std::string features_path() const { return name + "/features"; }
  std::string labels_path() const { return name + "/labels"; }
  std::string targets_path() const { return name + "/targets"; }
  /// Bytes of one example in memory: features, label and targets.
  std::int64_t bytes_per_example() const;
};

/// What a file says of itself, before its values are read.
struct SetSchema {
  std::string path;
  std::array<std::optional<GroupSchema>, 3> groups;  ///< by Split
  std::optional<std::int64_t> classes;               ///< where the file states it
  std::vector<std::string> class_names;

  const std::optional<GroupSchema>& group(Split split) const { return groups[static_cast<std::size_t>(split)]; }
  const GroupSchema& any_group() const;
};

/// What a set must have.
struct SchemaRules {
  bool needs_training = true;    ///< a group `train`
  bool needs_answers = true;     ///< labels or targets
  bool ignores_answers = false;  ///< the target is the input
};

/// Reads shapes, types and attributes, and checks that they fit together.
/// \throws DataError naming the dataset that is missing, empty, of a type or shape that is not understood, or that does
///         not fit the others
SetSchema read_schema(const hdf5::File& file, const SchemaRules& rules);

}  // namespace unisono::data
