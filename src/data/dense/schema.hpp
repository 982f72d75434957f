#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dense/encoded_pictures.hpp"
#include "order/schedule.hpp"
#include "recipe/encoder.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::data {

/// The metadata of one group of a set: "train", "validation" or "test". A feature's value is scale · stored + offset.
struct GroupSchema {
  std::string name;
  std::int64_t examples = 0;
  FeatureShape features;
  hdf5::DatasetShape stored;  ///< shape of the dataset of features
  Storage storage = Storage::float32;
  float scale = 1, offset = 0;
  bool has_labels = false;
  bool has_weights = false;     ///< weights of the examples' losses, for training
  Index target_size = 0;        ///< values of a target; 0 where there are none
  bool several_labels = false;  ///< whether targets are those of several labels, 0 or 1
  bool channels_last = false;   ///< images are stored as [height, width, channels]
  bool raw = false;             ///< whether rows are the recipe's unencoded columns, with NaN for missing values
  std::shared_ptr<const Encoder> encoder = {};  ///< of the recipe's columns; null: stored values are the features
  std::shared_ptr<const EncodedPictures> pictures = {};  ///< in place of features; null: there are features
  std::vector<std::int32_t> classes = {};  ///< the model's class for each stored label, or −1; empty: the label itself
  std::vector<std::string> class_names = {};  ///< names of the stored labels, parallel to `classes`
  /// For each stored target, the number of the model's label that it is; empty: they are stored as the model has them.
  std::vector<Index> target_places = {};

  std::string features_path() const { return name + (pictures ? "/pictures" : "/features"); }
  std::string labels_path() const { return name + "/labels"; }
  std::string targets_path() const { return name + "/targets"; }
  std::string weights_path() const { return name + "/weights"; }
  /// Values of a target in the file.
  std::size_t stored_targets() const {
    return target_places.empty() ? static_cast<std::size_t>(target_size) : target_places.size();
  }
  std::string class_text(std::size_t label) const {
    return label < class_names.size() ? "'" + class_names[label] + "'" : std::to_string(label);
  }
  /// Bytes of the features of all rows, or of their pictures.
  std::size_t feature_bytes() const;
  /// Bytes of one example in memory: features, label and targets; on average where examples are pictures.
  std::int64_t bytes_per_example() const;
};

/// A set's metadata, read before its values.
struct SetSchema {
  std::string path;
  std::array<std::optional<GroupSchema>, 3> groups;  ///< by Split
  std::optional<std::int64_t> classes;               ///< if the file states it
  std::vector<std::string> class_names;
  std::vector<std::string> label_names;    ///< of the targets, if they are several labels; see label_names.hpp
  std::vector<std::string> absent_labels;  ///< labels of a trained model that the file does not name
  Recipe recipe;                           ///< empty: there is none
  std::vector<std::string> feature_names;  ///< if the file states them

  const std::optional<GroupSchema>& group(Split split) const { return groups[static_cast<std::size_t>(split)]; }
  const GroupSchema& any_group() const;
};

/// What a set must have, for `read_schema`.
struct SchemaRules {
  bool needs_training = true;                    ///< a group `train`
  bool needs_answers = true;                     ///< labels or targets
  bool ignores_answers = false;                  ///< the target is the input
  ImageLayout layout = ImageLayout::automatic;   ///< as in DataSettings
  PictureSettings pictures = {};                 ///< as in DataSettings
  std::optional<ImageForm> trained_images = {};  ///< what pictures became that a trained model was trained on
};

/// Reads shapes, types and attributes, and checks that they fit together.
/// \throws DataError naming the dataset that is missing, empty, of an unknown type or shape, or inconsistent with the
/// others
SetSchema read_schema(const hdf5::File& file, const SchemaRules& rules);

/// Reads the labels of some rows; they may have any type of number, but must be whole and in [0, 2³¹).
/// \throws DataError naming the first example with another label
void read_labels(const hdf5::File& file, const std::string& dataset, Range rows, std::int32_t* labels);

/// The end of a message about labels that are text, with a remedy: "holds text; …".
std::string text_labels_hint();

/// All labels of a group, for a stratified split; empty if there are too many classes for one.
std::vector<std::int32_t> read_strata(const hdf5::File& file, const std::string& dataset, std::int64_t examples);

/// Calls visit(label) for these rows, until it returns false.
void visit_labels(const hdf5::File& file, const std::string& dataset, const FileRows& rows,
                  const std::function<bool(std::int32_t)>& visit);

/// How many of these rows have each label. \param classes larger than every label
std::vector<std::int64_t> count_labels(const hdf5::File& file, const std::string& dataset, const FileRows& rows,
                                       std::int64_t classes);

/// The largest label of these rows.
std::int32_t largest_label(const hdf5::File& file, const std::string& dataset, Range rows);

/// How many classes a set has: as the file states, or else one more than the largest label of its training group
/// (without one: of any group).
/// \param largest by Split; -1 where there are no labels
/// \throws DataError if a label of any group is too large for that
std::int64_t count_classes(const SetSchema& set, const std::array<std::int32_t, 3>& largest);

}  // namespace unisono::data
