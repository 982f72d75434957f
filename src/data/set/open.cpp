#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "dense/schema.hpp"
#include "recipe/encoder.hpp"
#include "set/agreement.hpp"
#include "set/external.hpp"
#include "set/fold.hpp"
#include "set/form.hpp"
#include "sparse/schema.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {
namespace {

void check_order(const DataSettings& settings, SetKind kind) {
  if (settings.order != Order::strata || kind == SetKind::ratings) return;
  const std::string_view by = settings.strata_set_by;
  throw ConfigError(fmt::format("{}data.order = \"strata\" {} ratings, but {} holds {}; choose another {}order",
                                by.empty() ? "" : fmt::format("{} and ", by), by.empty() ? "needs" : "need",
                                settings.path, name_of(kind), by.empty() ? "" : "strategy and "));
}

void check_context(const DataSettings& settings, SetKind kind) {
  if (kind == SetKind::tokens) return;
  if (settings.windows == WindowPlaces::random) {
    throw ConfigError(fmt::format("data.windows = \"random\" is for sets of tokens, but {} holds {}; remove it",
                                  settings.path, name_of(kind)));
  }
  if (settings.context == 0) return;
  throw ConfigError(fmt::format("data.context = {} is for sets of tokens, but {} holds {}; remove it", settings.context,
                                settings.path, name_of(kind)));
}

SetSchema schema_of(const hdf5::File& file) { return read_schema(file, {.needs_answers = false}); }

/// Each value's number among the different values, ascending.
template <typename T>
std::vector<std::int64_t> numbered(const std::vector<T>& values) {
  std::vector<T> different = values;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  std::vector<std::int64_t> numbers;
  for (const T& value : values) {
    numbers.push_back(std::lower_bound(different.begin(), different.end(), value) - different.begin());
  }
  return numbers;
}

std::vector<std::int64_t> whole_or_numbered(const std::vector<double>& values, const std::string& where) {
  constexpr double kExact = 1LL << 53;
  const auto missing = std::find_if(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
  if (missing != values.end()) {
    throw DataError(
        fmt::format("{}: example {} has no value; fill it in, or use another column", where, missing - values.begin()));
  }
  const bool whole =
      std::all_of(values.begin(), values.end(), [](double x) { return x == std::floor(x) && std::abs(x) < kExact; });
  if (!whole) return numbered(values);
  return {values.begin(), values.end()};
}

std::vector<std::int64_t> read_dataset(const hdf5::File& file, const std::string& dataset, std::int64_t rows) {
  const hdf5::DatasetShape shape = file.shape(dataset);
  const std::string where = fmt::format("{}: /{}", file.path(), dataset);
  const bool known = hdf5::is_number(shape.type) || shape.type == hdf5::Type::text;
  if (shape.extent.size() != 1 || static_cast<std::int64_t>(shape.rows()) != rows || !known) {
    throw DataError(fmt::format("{} must hold {} numbers or texts, one for each training example", where, rows));
  }
  if (shape.type == hdf5::Type::text) return numbered(file.read_strings(dataset));
  if (hdf5::is_integer(shape.type)) return file.read<std::int64_t>(dataset);
  return whole_or_numbered(file.read<double>(dataset), where);
}

/// \param place of the column among the stored features
std::vector<std::int64_t> read_feature(const hdf5::File& file, const SetSchema& schema, std::size_t place) {
  const GroupSchema& train = *schema.group(Split::train);
  const auto rows = static_cast<std::size_t>(train.examples), width = train.stored.row_size();
  const std::string where = fmt::format("{}: /{}: column {}", file.path(), train.features_path(), place + 1);
  const std::vector<float> stored = file.read<float>(train.features_path());
  std::vector<double> values(rows);
  for (std::size_t i = 0; i < rows; ++i) values[i] = double{stored[i * width + place]};
  const bool category = !schema.recipe.columns.empty() && schema.recipe.columns[place].kind == ColumnKind::category;
  if (!category) return whole_or_numbered(values, where);
  const std::vector<std::string>& levels = schema.recipe.columns[place].levels;
  std::vector<std::string> texts;
  for (const double value : values) {
    if (!(value >= 0 && value < static_cast<double>(levels.size()))) {
      throw DataError(fmt::format("{} holds the category number {}, but has {} categories; import the set again", where,
                                  value, levels.size()));
    }
    texts.push_back(levels[static_cast<std::size_t>(value)]);
  }
  return numbered(texts);
}

std::vector<std::string> feature_names(const SetSchema& schema) {
  if (schema.recipe.columns.empty()) return schema.feature_names;
  std::vector<std::string> names;
  for (const RecipeColumn& column : schema.recipe.columns) names.push_back(column.name);
  return names;
}

/// Training examples; tokens of a set of tokens, which is not divided by examples.
std::int64_t rows_of(const hdf5::File& file) {
  if (kind_of(file) == SetKind::tokens) return static_cast<std::int64_t>(file.shape("train/tokens").rows());
  if (kind_of(file) == SetKind::table) return schema_of(file).group(Split::train)->examples;
  return read_sparse_schema(file, false).group(Split::train)->units;
}

/// The choices of a setting; the meaning of strata names what sets it, if anything does.
template <typename Enum, std::size_t N>
void choose(ConfigVisitor& visitor, const Field& field, Enum& value, const Named<Enum> (&names)[N],
            std::string_view strata_set_by) {
  std::array<Named<Enum>, N> described = std::to_array(names);
  std::string meaning;
  for (Named<Enum>& one : described) {
    if (one.value != Enum::strata || strata_set_by.empty()) continue;
    meaning = fmt::format("{}; set by {}", one.meaning, strata_set_by);
    one.meaning = meaning;
  }
  visitor.choice(field, value, described);
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const DataSettings& settings, std::uint64_t seed, const NodeShare& share,
                                      const Preprocessing* trained) {
  Agreement agreement(share);
  SetKind kind = SetKind::table;
  agreement.all_do([&] { check_seal(settings.path, share.node_rank, share.node_size); });
  agreement.all_do([&] {
    kind = kind_of(open_set_file(settings));
    if (trained == nullptr) check_order(settings, kind);
    check_context(settings, kind);
    const bool is_of_sparse_rows =
        trained != nullptr && trained->normalization.mean.empty() && !trained->normalization.scale.empty();
    if (kind == SetKind::table && is_of_sparse_rows) {
      throw DataError(
          fmt::format("{}: holds a table, but the model was trained on sparse rows; use a set like the "
                      "training set",
                      settings.path));
    }
  });
  if (kind == SetKind::tokens) return open_token_set(settings, share, trained);
  if (kind != SetKind::table) return open_sparse_set(settings, seed, share, trained);
  return open_table(settings, share, trained);
}

DatasetInfo inspect_dataset(const DataSettings& settings) {
  const NodeShare alone;
  Agreement agreement(alone);
  check_seal(settings.path);
  const hdf5::File file = open_set_file(settings);
  const SetKind kind = kind_of(file);
  check_order(settings, kind);
  check_context(settings, kind);
  if (kind == SetKind::tokens) return inspect_token_set(settings, file);
  if (kind != SetKind::table) return inspect_sparse_set(settings, file);
  return inspect_table(settings, file);
}

std::int64_t count_training_rows(const DataSettings& settings) { return rows_of(open_set_file(settings)); }

std::vector<std::int32_t> read_training_labels(const DataSettings& settings) {
  const hdf5::File file = open_set_file(settings);
  if (kind_of(file) == SetKind::tokens) return {};
  const bool labelled = kind_of(file) == SetKind::table
                            ? schema_of(file).group(Split::train)->has_labels
                            : read_sparse_schema(file, false).group(Split::train)->has_labels;
  if (!labelled) return {};
  const std::int64_t rows = rows_of(file);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows));
  read_labels(file, "train/labels", {0, rows}, labels.data());
  return labels;
}

bool has_training_groups(const DataSettings& settings) {
  const hdf5::File file = open_set_file(settings);
  return kind_of(file) != SetKind::tokens && has_groups(file, rows_of(file));
}

std::vector<std::int64_t> read_training_column(const DataSettings& settings, const std::string& name) {
  const hdf5::File file = open_set_file(settings);
  const std::string dataset = "train/" + name;
  if (name.find('/') == std::string::npos && file.exists(dataset) && file.is_dataset(dataset)) {
    return read_dataset(file, dataset, rows_of(file));
  }
  std::vector<std::string> names;
  if (kind_of(file) == SetKind::table) {
    const SetSchema schema = schema_of(file);
    names = feature_names(schema);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return read_feature(file, schema, static_cast<std::size_t>(found - names.begin()));
  }
  const std::string nearest = nearest_name(name, names);
  throw DataError(fmt::format("{}: has no dataset /{}{}{}", settings.path, dataset,
                              names.empty() ? "" : fmt::format(", and no column '{}' among {}", name, listed(names)),
                              nearest.empty() ? "" : fmt::format("; is it '{}'?", nearest)));
}

std::string_view name_of(Split split) {
  return split == Split::train ? "train" : split == Split::validation ? "validation" : "test";
}

std::string_view name_of(SetKind kind) {
  switch (kind) {
    case SetKind::table:
      return "a table";
    case SetKind::sparse:
      return "sparse rows";
    case SetKind::ratings:
      return "ratings";
    case SetKind::text:
      return "text";
    case SetKind::cooccurrences:
      return "co-occurrences";
    case SetKind::tokens:
      return "tokens";
  }
  return "";
}

void AugmentationSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "crop_padding",
                 .meaning = "pixels to add on each side of an image before it is cropped to its original size at a "
                            "random place",
                 .unit = "pixels",
                 .range = at_least(0).at_most(1 << 20)},
                crop_padding);
  visitor.field({.name = "horizontal_flip", .meaning = "mirror each image with probability 0.5"}, horizontal_flip);
  visitor.field({.name = "shift",
                 .meaning = "largest random shift of an image, in each direction",
                 .unit = "pixels",
                 .range = at_least(0).at_most(1 << 20)},
                shift);
  visitor.choice({.name = "fill", .meaning = "what comes in where an image is cropped, shifted or turned"}, fill,
                 kFills);
  visitor.field({.name = "crop_area",
                 .meaning = "scale a random part of each picture to the size of the images, with at least this share "
                            "of its area; 1: no such crop",
                 .range = above(0).at_most(1)},
                crop_area);
  visitor.field({.name = "crop_aspect",
                 .meaning = "for `crop_area`: the aspect of the part is the image's times a random factor between 1 / "
                            "this and this",
                 .range = at_least(1).at_most(100)},
                crop_aspect);
  visitor.field({.name = "rotation",
                 .meaning = "largest random rotation of an image, in each direction",
                 .unit = "degrees",
                 .range = at_least(0).at_most(180)},
                rotation);
  const auto field_of = [&](std::string_view name, std::string_view meaning, double& value, double most) {
    visitor.field({.name = name, .meaning = meaning, .range = at_least(0).at_most(most)}, value);
  };
  field_of("brightness", "multiply pixels by a random factor between 1 − this and 1 + this", brightness, 100);
  field_of("contrast", "move pixels away from the image's mean brightness by such a factor", contrast, 100);
  field_of("saturation", "move pixels away from their brightness by such a factor", saturation, 100);
  field_of("hue", "move all hues on by a random part of their circle, at most this far in each direction", hue, 0.5);
  field_of("erasing",
           "with this probability, replace a random rectangle, of 0.02 to 0.33 of the image, by zeros after "
           "normalisation",
           erasing, 1);
  field_of(
      "mixup",
      "α: mix each example with another of its batch, λ x₁ + (1 − λ) x₂, and their losses or targets alike, λ from "
      "the distribution Beta(α, α); 0: not",
      mixup, 1000);
  field_of(
      "cutmix",
      "α: replace a random rectangle of each image by that of another of its batch, a share 1 − λ of the area, and "
      "mix the losses, λ from Beta(α, α); with `mixup`, each example gets one of the two, half and half; 0: not",
      cutmix, 1000);
}

void PictureSettings::describe(ConfigVisitor& visitor) {
  constexpr std::int64_t kLongest = 1 << 16;
  visitor.field({.name = "height",
                 .meaning = "height of the images that pictures become; 0: as the import said",
                 .unit = "pixels",
                 .range = at_least(0).at_most(kLongest)},
                height);
  visitor.field({.name = "width",
                 .meaning = "width of these images; 0: as the import said",
                 .unit = "pixels",
                 .range = at_least(0).at_most(kLongest)},
                width);
  visitor.field({.name = "centre",
                 .meaning = "for evaluation: which share of the sides of the largest part that has the images' shape "
                            "is shown, around the middle; 0: as the import said",
                 .range = at_least(0).at_most(1)},
                centre);
  visitor.field({.name = "threads",
                 .meaning = "threads of each rank that decode pictures; 0: as many as it has cores",
                 .range = at_least(0).at_most(4096)},
                threads);
}

void DataSettings::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "path",
       .meaning = "HDF5 file with the data set, or a pattern of the names of several (\"photos-*.h5\"), whose "
                  "examples follow each other in the order of these names: for tables and pictures",
       .required = true},
      path);
  visitor.field({.name = "external_files",
                 .meaning = "whether the HDF5 file may refer to values in other files, by external links, external raw "
                            "storage or virtual datasets; whoever made it chose which files are read"},
                external_files);
  visitor.field({.name = "stage",
                 .meaning = "folder on a local disk of each node, where training keeps a copy of what it reads of the "
                            "set and reads it from then on, as do later jobs of the same user; empty: none"},
                stage);
  visitor.field({.name = "stage_bytes",
                 .meaning = "for `stage`: largest size of all copies of sets in the folder on a node; those that were "
                            "used least recently are removed; 0: no limit",
                 .unit = "bytes",
                 .range = at_least(0)},
                stage_bytes);
  visitor.choice({.name = "targets", .meaning = "what the model learns to predict"}, targets, kTargets);
  choose(visitor, {.name = "partition", .meaning = "how examples are assigned to ranks"}, partition, kPartitions,
         strata_set_by);
  visitor.choice({.name = "reader", .meaning = "whether the data set is held in memory or read during training"},
                 reader, kReaders);
  visitor.field(
      {.name = "window_bytes",
       .meaning = "for streaming: memory, over all ranks, of the window in which examples are shuffled; 0: 256 MiB",
       .unit = "bytes",
       .range = at_least(0)},
      window_bytes);
  visitor.field(
      {.name = "validation_fraction",
       .meaning =
           "share of the training examples that is used for validation instead, if the file has no group `validation`",
       .range = at_least(0).below(1)},
      validation_fraction);
  visitor.field({.name = "split_seed",
                 .meaning = "seed of the choice of these validation examples. `seed` does not change it, so that runs "
                            "with different seeds are compared on the same examples",
                 .range = at_least(0)},
                split_seed);
  visitor.choice({.name = "split_by", .meaning = "what is held out for these validation examples as a whole"}, split_by,
                 kSplitBy);
  visitor.field(
      {.name = "stratify",
       .meaning = "take the same share of each class for validation, if the examples have class labels and are "
                  "held out by rows; streaming takes whole blocks of rows instead"},
      stratify);
  visitor.choice({.name = "layout", .meaning = "order of the axes of images, if the file does not state it"}, layout,
                 kImageLayouts);
  visitor.choice(
      {.name = "normalization",
       .meaning = "subtract the mean of the training set from features, and divide by its standard deviation; "
                  "`feature` divides columns of sparse rows without subtracting, so that zeros stay zeros"},
      normalization, kNormalizations);
  visitor.field(
      {.name = "context",
       .meaning = "for sets of tokens, which need it: how many tokens an example has; a language model predicts "
                  "each from those before it in the example",
       .unit = "tokens",
       .range = at_least(0).at_most(1 << 24)},
      context);
  visitor.choice(
      {.name = "windows",
       .meaning = "for sets of tokens: where the windows of `context` tokens begin that a model is trained on"},
      windows, kWindowPlaces);
  visitor.field({.name = "shuffle",
                 .meaning = "true: shuffle the training examples in every epoch; false: use the order of the file"},
                shuffle);
  visitor.number_or(
      {.name = "arrangement_seed",
       .meaning = "seed of the random order in which sparse rows and ratings lie in memory. With a number, runs "
                  "with different seeds can share one copy of the set",
       .range = at_least(0)},
      arrangement_seed, {"seed", "the seed of the run"});
  choose(visitor, {.name = "order", .meaning = "order of shuffled examples"}, order, kOrders, strata_set_by);
  visitor.require("order", order == Order::random || shuffle, "order = \"strata\" needs shuffle = true");
  visitor.require("windows", windows == WindowPlaces::consecutive || (shuffle && partition != Partition::fixed),
                  "windows = \"random\" takes windows from the whole text in a random order: remove shuffle = false "
                  "and partition = \"fixed\"");
  visitor.section(
      {.name = "pictures", .meaning = "how pictures become images, in sets that hold the bytes of JPEG and PNG files"},
      pictures);
  visitor.section({.name = "augmentation",
                   .meaning = "random changes of training images, and mixtures of examples, different in every epoch"},
                  augmentation);
}

}  // namespace unisono::data
