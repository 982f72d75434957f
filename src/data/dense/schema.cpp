#include "dense/schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "recipe/recipe_file.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/label_names.hpp"

namespace unisono::data {
namespace {

/// "PATH: /OBJECT WHAT"
[[noreturn]] void fail(const hdf5::File& file, const std::string& object, const std::string& what) {
  throw DataError(fmt::format("{}: /{} {}", file.path(), object, what));
}

void check_numbers(const hdf5::File& file, const std::string& dataset, hdf5::Type type) {
  if (hdf5::is_number(type)) return;
  fail(file, dataset,
       fmt::format("holds values of type {}; store them as uint8, float16 or float32",
                   type == hdf5::Type::text ? "text" : "that is not a plain number"));
}

/// Whether [n, a, b, c] could as well be images of a × b with c channels as a channels of b × c.
bool could_be_channels_last(const std::vector<std::uint64_t>& extent) {
  constexpr std::uint64_t kMostChannels = 4;
  const std::uint64_t a = extent[1], b = extent[2], c = extent[3];
  return (c == 1 || c == 3 || c == 4) && a > kMostChannels && b > c;
}

/// Of features with four axes: what the file says, else what the config says. \throws ConfigError where nobody says
bool has_channels_last(const hdf5::File& file, const GroupSchema& group, ImageLayout layout) {
  const std::string path = group.features_path();
  if (file.has_attribute(path, "layout")) {
    const auto stated = file.read_attribute<std::string>(path, "layout");
    if (stated == "hwc" || stated == "chw") return stated == "hwc";
    fail(file, path, fmt::format("has the attribute layout = '{}'; it should be 'chw' or 'hwc'", stated));
  }
  const auto& extent = group.stored.extent;
  if (layout != ImageLayout::automatic || !could_be_channels_last(extent)) return layout == ImageLayout::hwc;
  throw ConfigError(
      fmt::format("{}: /{} has shape {}, which can be read in two ways: set data.layout = \"hwc\" for images of {} × "
                  "{} with {} channels, or data.layout = \"chw\" for {} channels of {} × {}",
                  file.path(), path, extent, extent[1], extent[2], extent[3], extent[1], extent[2], extent[3]));
}

/// [n], [n, F], [n, H, W], and [n, C, H, W] or [n, H, W, C]
FeatureShape feature_shape(const hdf5::File& file, const GroupSchema& group) {
  const auto& extent = group.stored.extent;
  const auto at = [&](std::size_t axis) { return static_cast<Index>(extent[axis]); };
  switch (extent.size()) {
    case 1:
      return {1, 1, 1};
    case 2:
      return {at(1), 1, 1};
    case 3:
      return {1, at(1), at(2)};
    case 4:
      if (group.channels_last) return {at(3), at(1), at(2)};
      return {at(1), at(2), at(3)};
    default:
      fail(file, group.features_path(),
           fmt::format("has {} axes; it should be [n, features], [n, height, width], [n, channels, height, width] or, "
                       "with the attribute layout = 'hwc', [n, height, width, channels]",
                       extent.size()));
  }
}

Storage storage_of(hdf5::Type type) {
  if (type == hdf5::Type::uint8) return Storage::uint8;
  return type == hdf5::Type::float16 ? Storage::float16 : Storage::float32;
}

float number_attribute(const hdf5::File& file, const std::string& dataset, const std::string& name, float otherwise) {
  if (!file.has_attribute(dataset, name)) return otherwise;
  const auto value = static_cast<float>(file.read_attribute<double>(dataset, name));
  if (!std::isfinite(value)) fail(file, dataset, fmt::format("has an attribute '{}' that is not finite", name));
  return value;
}

/// Raw columns have no scale: the stored value is a number, or the number of a level.
void require_columns(const hdf5::File& file, const GroupSchema& group, const Recipe& recipe) {
  if (group.stored.extent.size() == 2 && group.stored.row_size() == recipe.columns.size()) return;
  fail(file, group.features_path(),
       fmt::format("has shape {}, but /recipe describes {} columns; import the set again", group.stored.extent,
                   recipe.columns.size()));
}

/// Where the group has the bytes of pictures. They become images of bytes, 0 to 255 for 0 to 1.
void read_pictures(const hdf5::File& file, GroupSchema& group, const Recipe& recipe) {
  if (!recipe.images) {
    fail(file, group.name + "/pictures", "needs /recipe to say what images pictures become; import the folder again");
  }
  const ImageForm& form = *recipe.images;
  group.stored = file.shape(group.name + "/pictures");
  group.pictures = std::make_shared<const EncodedPictures>(read_encoded_pictures(file, group.name, form));
  group.examples = group.pictures->examples;
  group.stored.extent = {static_cast<std::uint64_t>(group.examples)};
  group.features = {form.channels(), form.height, form.width};
  group.storage = Storage::uint8;
  group.scale = static_cast<float>(1.0 / 255);
}

void read_features(const hdf5::File& file, GroupSchema& group, const SchemaRules& rules, const Recipe& recipe) {
  if (file.exists(group.name + "/pictures")) {
    if (file.exists(group.features_path())) fail(file, group.name, "has both 'features' and 'pictures'; remove one");
    return read_pictures(file, group, recipe);
  }
  const std::string path = group.features_path();
  if (!file.exists(path)) fail(file, group.name, fmt::format("has no dataset 'features'; add it"));
  group.stored = file.shape(path);
  check_numbers(file, path, group.stored.type);
  group.examples = static_cast<std::int64_t>(group.stored.rows());
  group.channels_last = group.stored.extent.size() == 4 && has_channels_last(file, group, rules.layout);
  group.features = feature_shape(file, group);
  if (group.examples == 0) fail(file, path, "is empty; leave the group out, or give it examples");
  if (group.features.size() == 0)
    fail(file, path, fmt::format("has shape {}, so its examples have no features", group.stored.extent));
  if (!recipe.columns.empty()) {
    require_columns(file, group, recipe);
    group.raw = true;
    return;
  }
  group.storage = storage_of(group.stored.type);
  group.scale = number_attribute(file, path, "scale", 1);
  group.offset = number_attribute(file, path, "offset", 0);
  if (group.scale == 0) fail(file, path, "has the attribute scale = 0, which makes all values equal");
}

/// Checks that labels or targets have one row for each row of features.
hdf5::DatasetShape answer_shape(const hdf5::File& file, const GroupSchema& group, const std::string& path) {
  const hdf5::DatasetShape shape = file.shape(path);
  if (shape.type == hdf5::Type::text && path == group.labels_path()) fail(file, path, text_labels_hint());
  check_numbers(file, path, shape.type);
  if (shape.rows() != group.stored.rows()) {
    fail(file, path,
         fmt::format("holds {} but /{} holds {}; one value per example is needed",
                     count_of(static_cast<std::int64_t>(shape.rows()), "value"), group.features_path(),
                     count_of(group.examples, "example")));
  }
  return shape;
}

void read_answers(const hdf5::File& file, GroupSchema& group, const SchemaRules& rules) {
  if (file.exists(group.labels_path())) {
    const auto shape = answer_shape(file, group, group.labels_path());
    if (shape.row_size() != 1) {
      fail(file, group.labels_path(),
           fmt::format("has shape {}, but needs one class number per example ('targets' may have more)", shape.extent));
    }
    group.has_labels = true;
  }
  if (file.exists(group.targets_path())) {
    group.target_size = static_cast<Index>(answer_shape(file, group, group.targets_path()).row_size());
    if (group.target_size == 0) fail(file, group.targets_path(), "has no values in its rows");
  }
  if (rules.needs_training && file.exists(group.weights_path())) {
    if (answer_shape(file, group, group.weights_path()).row_size() != 1) {
      fail(file, group.weights_path(), "has more than one weight per example");
    }
    group.has_weights = true;
  }
  if (rules.needs_answers && !group.has_labels && group.target_size == 0) {
    fail(
        file, group.name,
        "has neither 'labels' nor 'targets'; add one, or set data.targets = \"features\" to train on the input itself");
  }
}

GroupSchema read_group(const hdf5::File& file, const std::string& name, const SchemaRules& rules,
                       const Recipe& recipe) {
  GroupSchema group;
  group.name = name;
  if (file.is_dataset(name)) fail(file, name, "is a dataset; it should be a group that holds 'features'");
  read_features(file, group, rules, recipe);
  if (!rules.ignores_answers) read_answers(file, group, rules);
  return group;
}

std::vector<std::string> read_feature_names(const hdf5::File& file, const GroupSchema& group) {
  const std::string path = group.features_path();
  if (group.raw || group.pictures || !file.has_attribute(path, "feature_names")) return {};
  return file.read_attribute<std::vector<std::string>>(path, "feature_names");
}

/// Checks that stored values stand for the same thing in all groups: a model sees those of the training group, and is
/// evaluated on the others.
void check_meaning(const hdf5::File& file, const SetSchema& set) {
  const GroupSchema& one = set.any_group();
  for (const auto& group : set.groups) {
    if (!group || group->raw) continue;
    const bool scaled_alike = group->scale == one.scale && group->offset == one.offset;
    if (group->stored.type == one.stored.type && !scaled_alike) {
      fail(file, group->features_path(),
           fmt::format("holds values that stand for {:g} · value + {:g}, but in /{} values of the same type stand for "
                       "{:g} · value + {:g}; give both the same attributes scale and offset",
                       group->scale, group->offset, one.features_path(), one.scale, one.offset));
    }
    const std::vector<std::string> names = read_feature_names(file, *group);
    if (names.size() != set.feature_names.size()) continue;
    const auto [name, other] = std::mismatch(names.begin(), names.end(), set.feature_names.begin());
    if (name == names.end()) continue;
    fail(file, group->features_path(),
         fmt::format("has '{}' as feature {}, but /{} has '{}'; put the features of both in one order", *name,
                     name - names.begin() + 1, one.features_path(), *other));
  }
}

/// Checks that all groups have examples of the same kind.
void check_alike(const hdf5::File& file, const SetSchema& set, const SchemaRules& rules) {
  const GroupSchema& one = set.any_group();
  for (const auto& group : set.groups) {
    if (!group) continue;
    if (group->features != one.features) {
      fail(file, group->features_path(),
           fmt::format("has examples of a different shape ({}) than /{} ({})", group->stored.extent,
                       one.features_path(), one.stored.extent));
    }
    if (!rules.needs_answers) continue;
    if (group->has_labels != one.has_labels || group->target_size != one.target_size) {
      fail(file, group->name,
           fmt::format("does not have the same kind of labels or targets as /{}; all groups need the same kind",
                       one.name));
    }
  }
}

void check_complete(const hdf5::File& file, const std::string& dataset, const hdf5::DatasetShape& shape) {
  if (shape.complete) return;
  fail(
      file, dataset,
      fmt::format(
          "has shape {}, but parts of it were never written; was the program that wrote it interrupted? Write it again",
          shape.extent));
}

/// Checks that all datasets that will be read were written completely.
void check_complete(const hdf5::File& file, const SetSchema& set) {
  for (const auto& group : set.groups) {
    if (!group) continue;
    check_complete(file, group->features_path(), group->stored);
    if (group->pictures) check_complete(file, group->name + "/ends", file.shape(group->name + "/ends"));
    if (group->has_labels) check_complete(file, group->labels_path(), file.shape(group->labels_path()));
    if (group->has_weights) check_complete(file, group->weights_path(), file.shape(group->weights_path()));
    if (group->target_size > 0) check_complete(file, group->targets_path(), file.shape(group->targets_path()));
  }
}

void read_classes(const hdf5::File& file, SetSchema& set) {
  if (file.has_attribute("", "class_names")) {
    set.class_names = file.read_attribute<std::vector<std::string>>("", "class_names");
    set.classes = static_cast<std::int64_t>(set.class_names.size());
  }
  if (file.has_attribute("", "classes")) set.classes = file.read_attribute<std::int64_t>("", "classes");
  if (!set.classes) return;
  const std::int64_t names = static_cast<std::int64_t>(set.class_names.size());
  if (*set.classes < 1)
    fail(file, "", fmt::format("has the attribute classes = {}; it should be at least 1", *set.classes));
  if (names > 0 && names != *set.classes) {
    fail(file, "", fmt::format("has the attribute classes = {} but {} class_names", *set.classes, names));
  }
}

void read_label_names(const hdf5::File& file, SetSchema& set) {
  if (!file.has_attribute("", "label_names")) return;
  set.label_names = file.read_attribute<std::vector<std::string>>("", "label_names");
  if (const std::string problem = problem_of_labels(set.label_names); !problem.empty()) {
    fail(file, "", fmt::format("has the attribute label_names, but {}; correct it", problem));
  }
  for (auto& group : set.groups) {
    if (group) group->several_labels = true;
    if (group && group->has_labels) {
      fail(file, group->labels_path(),
           "has one label for each example, but the file's attribute label_names says that an example may have several "
           "of them, in 'targets'; remove one of them");
    }
    if (!group || group->target_size == 0 || group->target_size == std::ssize(set.label_names)) continue;
    fail(file, group->targets_path(),
         fmt::format("holds {} for each example, but the file's attribute label_names names {}; give each label a "
                     "column of 0 and 1",
                     count_of(group->target_size, "value"), count_of(std::ssize(set.label_names), "label")));
  }
}

void check_groups(const hdf5::File& file, const SetSchema& set, const SchemaRules& rules) {
  const bool any = set.groups[0] || set.groups[1] || set.groups[2];
  if (any && (set.group(Split::train) || !rules.needs_training)) return;
  throw DataError(fmt::format("{}: has no group '{}'; its root holds {}; docs/data-format.md describes the layout",
                              file.path(), rules.needs_training ? "train" : "test",
                              fmt::join(file.children(""), ", ")));
}

/// What pictures become: as for a trained model, or as the config and the import say.
void settle_images(Recipe& recipe, const SchemaRules& rules) {
  if (!recipe.images) return;
  if (rules.trained_images) {
    recipe.images = rules.trained_images;
    return;
  }
  ImageForm& form = *recipe.images;
  if (rules.pictures.height > 0) form.height = rules.pictures.height;
  if (rules.pictures.width > 0) form.width = rules.pictures.width;
  if (rules.pictures.centre > 0) form.centre = rules.pictures.centre;
  if (const std::string problem = problem_of(form); !problem.empty()) {
    throw ConfigError("[data.pictures]: " + problem);
  }
  if (rules.pictures.centre > 0 && form.fit != Fit::crop) {
    throw ConfigError("data.pictures.centre is for pictures that are cropped, but those of the set are not; remove it");
  }
}

/// Images that were made in another way than those of the training set are not what the model was trained on.
void require_same_images(const SetSchema& set, const ImageForm& stored) {
  const ImageForm& trained = *set.recipe.images;
  if (stored == trained) return;
  const auto text = [](const ImageForm& form) {
    return fmt::format("{} × {}, {}, {}, centre {:g}", form.width, form.height, name_of(form.fit, kFits),
                       name_of(form.colours, kColours), form.centre);
  };
  throw DataError(fmt::format(
      "{}: its images were made in another way ({}) than those that the model was trained on ({}); import the pictures "
      "like these, or with --encoded, or name their folder with --input",
      set.path, text(stored), text(trained)));
}

/// The config may say what pictures become only where they are decoded while they are used.
void check_pictures(const SetSchema& set, const SchemaRules& rules) {
  if (set.any_group().pictures || !rules.pictures.any()) return;
  throw ConfigError(fmt::format(
      "[data.pictures] says how pictures become images, but the examples of {} are no pictures of JPEG or PNG files; "
      "remove it, or import the folder with --encoded",
      set.path));
}

constexpr std::int64_t kRowsAtATime = 1 << 18;
constexpr double kLimit = 2147483648.0;          // labels are kept as int32
constexpr std::int32_t kMostUnstated = 1 << 20;  // most classes of a set that does not state their number

[[noreturn]] void fail(const hdf5::File& file, const std::string& dataset, std::int64_t row, double label) {
  throw DataError(fmt::format("{}: /{}: example {} has the label {}; labels are whole numbers from 0 up", file.path(),
                              dataset, row, label));
}

}  // namespace

std::size_t GroupSchema::feature_bytes() const {
  if (pictures) return static_cast<std::size_t>(pictures->bytes);
  return static_cast<std::size_t>(examples * features.size()) * size_of(storage);
}

std::int64_t GroupSchema::bytes_per_example() const {
  const std::size_t label = (has_labels ? sizeof(std::int32_t) : 0) + (has_weights ? sizeof(float) : 0);
  const std::size_t of_features = feature_bytes() / static_cast<std::size_t>(examples) + (pictures ? 1 : 0);
  return static_cast<std::int64_t>(of_features + label + static_cast<std::size_t>(target_size) * sizeof(float));
}

const GroupSchema& SetSchema::any_group() const {
  for (const auto& group : groups) {
    if (group) return *group;
  }
  throw DataError(path + ": has no group 'train', 'validation' or 'test'");
}

SetSchema read_schema(const hdf5::File& file, const SchemaRules& rules) {
  SetSchema set;
  set.path = file.path();
  set.recipe = read_recipe(file);
  const std::optional<ImageForm> stored = set.recipe.images;
  settle_images(set.recipe, rules);
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    const std::string name(name_of(split));
    if (file.exists(name)) set.groups[static_cast<std::size_t>(split)] = read_group(file, name, rules, set.recipe);
  }
  check_groups(file, set, rules);
  check_pictures(set, rules);
  if (stored && !set.any_group().pictures) require_same_images(set, *stored);
  check_alike(file, set, rules);
  check_complete(file, set);
  read_classes(file, set);
  if (!rules.ignores_answers) read_label_names(file, set);
  set.feature_names = read_feature_names(file, set.any_group());
  check_meaning(file, set);
  return set;
}

void read_labels(const hdf5::File& file, const std::string& dataset, Range rows, std::int32_t* labels) {
  std::vector<double> values(static_cast<std::size_t>(std::min(rows.size(), kRowsAtATime)));
  for (std::int64_t first = rows.first; first < rows.last; first += kRowsAtATime) {
    const std::int64_t count = std::min(kRowsAtATime, rows.last - first);
    file.read_rows(dataset, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(count), values.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = values[static_cast<std::size_t>(i)];
      if (!(value >= 0 && value < kLimit && value == std::floor(value))) fail(file, dataset, first + i, value);
      *labels++ = static_cast<std::int32_t>(value);
    }
  }
}

std::string text_labels_hint() {
  return "holds text; store whole numbers 0 … K−1, and the names in the file's attribute class_names, with h5py: "
         "names, numbers = numpy.unique(labels, return_inverse=True); "
         "f[\"train/labels\"], f.attrs[\"class_names\"] = numbers, names.tolist()";
}

std::vector<std::int32_t> read_strata(const hdf5::File& file, const std::string& dataset, std::int64_t examples) {
  constexpr std::int32_t kMostStrata = 1 << 20;
  std::vector<std::int32_t> labels(static_cast<std::size_t>(examples));
  read_labels(file, dataset, {0, examples}, labels.data());
  if (*std::max_element(labels.begin(), labels.end()) >= kMostStrata) return {};
  return labels;
}

void visit_labels(const hdf5::File& file, const std::string& dataset, const FileRows& rows,
                  const std::function<bool(std::int32_t)>& visit) {
  const std::vector<FileRows::Run> runs = rows.runs({0, rows.size()});
  if (runs.empty()) return;
  const Range all{runs.front().first_row, runs.back().first_row + runs.back().rows};
  std::vector<std::int32_t> labels(static_cast<std::size_t>(std::min(all.size(), kRowsAtATime)));
  auto run = runs.begin();
  for (std::int64_t first = all.first; first < all.last; first += kRowsAtATime) {
    const Range part{first, std::min(first + kRowsAtATime, all.last)};
    read_labels(file, dataset, part, labels.data());
    for (; run != runs.end() && run->first_row < part.last; ++run) {
      const std::int64_t begin = std::max(run->first_row, part.first), end = run->first_row + run->rows;
      for (std::int64_t row = begin; row < std::min(end, part.last); ++row) {
        if (!visit(labels[static_cast<std::size_t>(row - part.first)])) return;
      }
      if (end > part.last) break;
    }
  }
}

std::vector<std::int64_t> count_labels(const hdf5::File& file, const std::string& dataset, const FileRows& rows,
                                       std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  visit_labels(file, dataset, rows, [&](std::int32_t label) {
    ++counts[static_cast<std::size_t>(label)];
    return true;
  });
  return counts;
}

std::int32_t largest_label(const hdf5::File& file, const std::string& dataset, Range rows) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(std::min(rows.size(), kRowsAtATime)));
  std::int32_t largest = -1;
  for (std::int64_t first = rows.first; first < rows.last; first += kRowsAtATime) {
    const Range part{first, std::min(first + kRowsAtATime, rows.last)};
    read_labels(file, dataset, part, labels.data());
    largest = std::max(largest, *std::max_element(labels.begin(), labels.begin() + part.size()));
  }
  return largest;
}

std::int64_t count_classes(const SetSchema& set, const std::array<std::int32_t, 3>& largest) {
  const std::int32_t training = largest[static_cast<std::size_t>(Split::train)];
  const std::int32_t shown = training >= 0 ? training : *std::max_element(largest.begin(), largest.end());
  const std::int64_t classes = set.classes ? *set.classes : std::int64_t{shown} + 1;
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    const std::int32_t label = largest[static_cast<std::size_t>(split)];
    if (label < classes && (set.classes || label < kMostUnstated)) continue;
    if (!set.classes && label >= kMostUnstated) {
      throw DataError(fmt::format(
          "{}: /{}/labels: a label is {}; a set with more than {} classes needs the file attribute 'classes'", set.path,
          name_of(split), label, kMostUnstated));
    }
    const std::string source = set.classes
                                   ? "the file's attribute 'classes' or 'class_names' states; correct one of them"
                                   : "the training labels show; if there are more, set the file's attribute 'classes'";
    throw DataError(fmt::format("{}: /{}/labels: a label is {}, which is out of range for the {} classes that {}",
                                set.path, name_of(split), label, classes, source));
  }
  return classes;
}

}  // namespace unisono::data
