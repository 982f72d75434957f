#include "dense/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "dense/feature_writer.hpp"
#include "dense/rows.hpp"
#include "set/external.hpp"
#include "set/fold.hpp"
#include "set/form.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/resources.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kSampledRows = 32;  // of each group

std::uint64_t hash_example(const GroupSchema& group, const RawExample& example, std::uint64_t hash) {
  hash = hash_bytes({example.features, example.feature_bytes}, hash);
  if (group.has_labels) hash = hash_bytes(std::as_bytes(std::span(&example.label, 1)), hash);
  if (group.has_weights) hash = hash_bytes(std::as_bytes(std::span(&example.weight, 1)), hash);
  if (group.target_size == 0) return hash;
  return hash_bytes(std::as_bytes(std::span(example.targets, static_cast<std::size_t>(group.target_size))), hash);
}

/// What some evenly spaced rows of each group tell.
struct Sample {
  std::uint64_t identity = 0;  ///< hash of the set's shapes, types and sizes, and of these rows: DatasetInfo::identity
  DecodingBytes decoding;      ///< the most that a picture among them needs
};

Sample sample_of(const hdf5::File& file, const SetSchema& schema) {
  std::uint64_t hash = 0;
  DecodingBytes most;
  for (const auto& group : schema.groups) {
    if (!group) continue;
    hash =
        hash_bytes(fmt::format("{} {} {} {} {} {} {}", group->name, group->stored.extent, name_of(group->stored.type),
                               group->scale, group->offset, group->has_labels, group->target_size),
                   hash);
    const std::int64_t rows = std::min(kSampledRows, group->examples);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t row = part_of(group->examples, i, rows).first;
      const OwnedBlock one(file, *group, {row, row + 1});
      const RawExample example = one.block.example(row);
      hash = hash_example(*group, example, hash);
      if (!group->pictures) continue;
      const DecodingBytes bytes = decoding_bytes(picture_of(example), group->pictures->form);
      most = {std::max(most.kept, bytes.kept), std::max(most.working, bytes.working)};
    }
  }
  return {.identity = hash ^ hash_of_external_files(file), .decoding = most};
}

constexpr double kResidentShare = 0.5;  // of the memory that is available

/// Bytes that a node needs for the whole set in memory.
std::int64_t resident_bytes(const SetPlan& plan, const DataSettings& settings, const NodeShare& share, int ranks) {
  std::int64_t bytes = 0;
  for (const auto& group : plan.schema.groups) {
    if (group) bytes += static_cast<std::int64_t>(RowBlock::bytes(*group));
  }
  return settings.partition == Partition::fixed ? bytes / ranks * share.node_size : bytes;
}

bool fits(std::int64_t bytes, std::int64_t available) {
  return static_cast<double>(bytes) <= kResidentShare * static_cast<double>(available);
}

void note_streaming(SetPlan& plan, const DataSettings& settings, const NodeShare& share, int ranks) {
  plan.info.resident = false;
  plan.window_bytes = settings.window_bytes > 0 ? settings.window_bytes : kDefaultWindowBytes;
  const auto& train = plan.schema.group(Split::train);
  const std::int64_t there = train ? static_cast<std::int64_t>(RowBlock::bytes(*train)) : 0;
  plan.info.bytes_per_node = std::min(plan.window_bytes, 2 * there) / ranks * share.node_size;
}

/// How many consecutive rows are held out together: 1 if the set is resident; if it is streamed, a block that is read
/// at once.
std::int64_t split_unit(const GroupSchema& group, bool resident) {
  const std::int64_t rows = block_rows(group);
  return resident || group.examples / rows < 2 ? 1 : rows;
}

/// The class of each row, for a stratified split; empty if rows have no classes or are not chosen one by one.
std::vector<std::int32_t> strata_of(const GroupSchema& train, const hdf5::File& file, const DataSettings& settings,
                                    std::int64_t unit) {
  if (!settings.stratify || !train.has_labels || unit > 1) return {};
  return read_strata(file, train.labels_path(), train.examples);
}

/// Makes some rows of the training group the validation examples.
void hold_out(SetPlan& plan, FileRows train, FileRows validation) {
  plan.groups[static_cast<std::size_t>(Split::validation)] = plan.group(Split::train);
  plan.positions[static_cast<std::size_t>(Split::train)] = std::move(train);
  plan.positions[static_cast<std::size_t>(Split::validation)] = std::move(validation);
}

void split_examples(SetPlan& plan, const hdf5::File& file, const DataSettings& settings) {
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    const auto i = static_cast<std::size_t>(split);
    if (!plan.schema.groups[i]) continue;
    plan.groups[i] = &*plan.schema.groups[i];
    plan.positions[i] = FileRows(plan.groups[i]->examples);
  }
  const GroupSchema* train = plan.group(Split::train);
  if (settings.validation_fraction == 0 || train == nullptr) return;
  if (plan.group(Split::validation) != nullptr) {
    throw ConfigError(fmt::format("data.validation_fraction = {} but {} has a group 'validation'; remove one of them",
                                  settings.validation_fraction, plan.schema.path));
  }
  if (train->examples < 2) {
    throw DataError(
        fmt::format("{}: /train has only 1 example, so data.validation_fraction cannot be held back; set it to 0",
                    plan.schema.path));
  }
  if (const auto division = divide_by_groups(settings, file, train->examples)) {
    hold_out(plan, runs_of(division->fold.train), runs_of(division->fold.validation));
    plan.info.groups = division->groups;
    plan.info.held_out_groups = division->held_out;
    return;
  }
  const std::int64_t unit = split_unit(*train, plan.info.resident);
  const std::vector<std::int32_t> strata = strata_of(*train, file, settings, unit);
  const auto seed = static_cast<std::uint64_t>(settings.split_seed);
  auto split = strata.empty() ? split_validation(train->examples, unit, settings.validation_fraction, seed)
                              : split_stratified(strata, settings.validation_fraction, seed);
  hold_out(plan, std::move(split.train), std::move(split.validation));
}

/// The ranks of a node divide the labels.
void count_classes(SetPlan& plan, const hdf5::File& file, const NodeShare& share, Agreement& agreement) {
  std::array<std::int32_t, 3> largest{-1, -1, -1};
  bool any = false;
  agreement.all_do([&] {
    for (std::size_t i = 0; i < largest.size(); ++i) {
      const auto& group = plan.schema.groups[i];
      if (!group || !group->has_labels) continue;
      any = true;
      largest[i] =
          largest_label(file, group->labels_path(), part_of(group->examples, share.node_rank, share.node_size));
    }
  });
  if (!any) return;
  for (std::int32_t& label : largest) label = static_cast<std::int32_t>(agreement.largest(label));
  plan.info.classes = count_classes(plan.schema, largest);
}

void check_augmentation(const SetPlan& plan, const DataSettings& settings) {
  const FeatureShape& shape = plan.info.features;
  const AugmentationSettings& asked = settings.augmentation;
  if (asked.cutmix > 0 && shape.width <= 1) {
    throw ConfigError(
        fmt::format("data.augmentation.cutmix cuts rectangles out of images, but the examples of {} are rows of {} "
                    "features; take mixup",
                    plan.schema.path, shape.size()));
  }
  if (!changes_images(asked)) return;
  if (shape.width <= 1) {
    throw ConfigError(
        fmt::format("[data.augmentation] moves images, but the examples of {} are rows of {} features; remove it",
                    plan.schema.path, shape.size()));
  }
  const bool bytes = plan.schema.any_group().storage == Storage::uint8;
  if (!bytes && (asked.crop_area < 1 || changes_colours(asked))) {
    throw ConfigError(fmt::format(
        "[data.augmentation]: crop_area, brightness, contrast, saturation and hue need images that are stored as bytes "
        "(uint8), but those of {} are {}; remove these keys",
        plan.schema.path, hdf5::name_of(plan.schema.any_group().stored.type)));
  }
  if (changes_colours(asked) && shape.channels != 1 && shape.channels != 3) {
    throw ConfigError(fmt::format(
        "[data.augmentation]: brightness, contrast, saturation and hue need images of one or three channels, but those "
        "of {} have {}; remove these keys",
        plan.schema.path, shape.channels));
  }
  if (shape.channels == 1 && (asked.saturation > 0 || asked.hue > 0)) {
    throw ConfigError(
        fmt::format("[data.augmentation]: saturation and hue need colours, but the images of {} are grey; "
                    "remove these keys",
                    plan.schema.path));
  }
  if (asked.fill == Fill::mean && plan.info.normalization == NormalizationKind::none) {
    throw ConfigError(
        "data.augmentation.fill = \"mean\" needs the mean of the training examples; set data.normalization = "
        "\"channel\", or another fill");
  }
}

}  // namespace

NormalizationKind normalization_of(const DataSettings& settings, const Recipe& recipe) {
  if (settings.normalization != NormalizationKind::automatic) return settings.normalization;
  return recipe.scaling == Scaling::none ? NormalizationKind::none : NormalizationKind::automatic;
}

SchemaRules rules_of(const DataSettings& settings, const Preprocessing* trained) {
  const bool autoencoder = settings.targets == Targets::features, is_training = trained == nullptr;
  return {.needs_training = is_training,
          .needs_answers = is_training && !autoencoder,
          .ignores_answers = autoencoder,
          .layout = settings.layout,
          .pictures = is_training ? settings.pictures : PictureSettings{},
          .trained_images = is_training ? std::nullopt : trained->recipe.images};
}

void choose_reader(SetPlan& plan, const DataSettings& settings, const NodeShare& share, Agreement& agreement) {
  const std::int64_t available = agreement.smallest(available_memory_bytes().value_or(0));
  const std::int64_t bytes = agreement.largest(resident_bytes(plan, settings, share, agreement.ranks()));
  plan.info.bytes_per_node = bytes;
  plan.info.resident =
      settings.reader == Reader::resident || (settings.reader == Reader::automatic && fits(bytes, available));
  if (!plan.info.resident) note_streaming(plan, settings, share, agreement.ranks());
}

void reconsider_reader(SetPlan& plan, const DataSettings& settings, const NodeShare& share, bool shared,
                       Agreement& agreement) {
  if (agreement.smallest(shared || share.node_size == 1 ? 1 : 0) == 1) return;
  const std::int64_t bytes = agreement.largest(plan.info.bytes_per_node * (shared ? 1 : share.node_size));
  const std::int64_t available = agreement.smallest(available_memory_bytes().value_or(0));
  plan.info.bytes_per_node = bytes;
  if (settings.reader == Reader::automatic && !fits(bytes, available))
    note_streaming(plan, settings, share, agreement.ranks());
}

namespace {

/// \throws DataError where no training example has a weight above 0
void require_some_weight(const hdf5::File& file, const GroupSchema& group) {
  constexpr std::int64_t kAtOnce = 1 << 16;
  const auto rows = static_cast<std::int64_t>(file.shape(group.weights_path()).rows());
  std::vector<float> weights;
  for (std::int64_t first = 0; first < rows; first += kAtOnce) {
    weights.resize(static_cast<std::size_t>(std::min(kAtOnce, rows - first)));
    file.read_rows(group.weights_path(), static_cast<std::uint64_t>(first), weights.size(), weights.data());
    if (std::ranges::any_of(weights, [](float weight) { return weight != 0; })) return;
  }
  throw DataError(
      fmt::format("{}: /{}: all weights are 0, so that nothing would be learned", file.path(), group.weights_path()));
}

}  // namespace

void complete_plan(SetPlan& plan, const hdf5::File& file, const DataSettings& settings, const Preprocessing* trained,
                   const NodeShare& share, Agreement& agreement) {
  agreement.all_do([&] { split_examples(plan, file, settings); });
  settle_form(plan, file, trained, agreement);
  agreement.all_do([&] {
    const GroupSchema& any = plan.schema.any_group();
    plan.info.features = any.features;
    plan.info.normalization = normalization_of(settings, plan.schema.recipe);
    if (any.stored.extent.size() == 4) plan.info.layout = any.channels_last ? ImageLayout::hwc : ImageLayout::chw;
    plan.info.target_size = settings.targets == Targets::features ? any.features.size() : any.target_size;
    plan.info.several_labels = !plan.preprocessing.label_names.empty() && settings.targets != Targets::features;
    plan.info.absent_labels = plan.schema.absent_labels;
    check_augmentation(plan, settings);
    for (std::size_t i = 0; i < plan.groups.size(); ++i) {
      if (plan.groups[i] == nullptr) continue;
      const Index features = settings.targets == Targets::features ? any.features.size() : plan.groups[i]->target_size;
      plan.info.targets[i] = {plan.groups[i]->has_labels, features};
    }
    plan.info.augmented = has_effect(settings.augmentation);
    plan.info.mixed = mixes_examples(settings.augmentation);
    plan.info.encoded = any.pictures != nullptr;
    plan.info.weighted = plan.group(Split::train) != nullptr && plan.group(Split::train)->has_weights;
    if (plan.info.weighted && trained == nullptr) require_some_weight(file, *plan.group(Split::train));
    plan.info.train = plan.rows(Split::train).size();
    plan.info.validation = plan.rows(Split::validation).size();
    plan.info.test = plan.rows(Split::test).size();
    const Sample sample = sample_of(file, plan.schema);
    plan.info.identity = sample.identity;
    plan.info.decoding_bytes = sample.decoding.kept + sample.decoding.working;
  });
  count_classes(plan, file, share, agreement);
  const bool renamed = trained != nullptr && !plan.schema.any_group().classes.empty();
  if (renamed) plan.info.classes = static_cast<Index>(trained->class_names.size());
}

}  // namespace unisono::data
