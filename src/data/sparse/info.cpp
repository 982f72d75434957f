#include "sparse/info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "dense/feature_writer.hpp"
#include "dense/plan.hpp"
#include "dense/schema.hpp"
#include "set/external.hpp"
#include "sparse/split.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

/// Names of a group's datasets of numbers.
std::vector<std::string> value_datasets(SetKind kind, const SparseGroup& group) {
  if (kind == SetKind::text) return {"words"};
  if (kind == SetKind::ratings) return {"users", "items", "ratings"};
  if (kind == SetKind::cooccurrences) return {"rows", "columns", "counts"};
  std::vector<std::string> names = {"features/indices"};
  if (group.has_data) names.emplace_back("features/data");
  if (group.has_labels) names.emplace_back("labels");
  if (group.has_targets) names.emplace_back("targets");
  return names;
}

/// Hash of sizes and of some values at the beginning and end of each group.
std::uint64_t identity_of(const hdf5::File& file, const SparseSchema& schema) {
  constexpr std::int64_t kSampled = 64;
  std::uint64_t hash = hash_bytes(fmt::format("{} {} {}", name_of(schema.kind), schema.rows, schema.columns));
  for (const auto& group : schema.groups) {
    if (!group) continue;
    hash = hash_bytes(fmt::format("{} {} {}", group->name, group->units, group->values), hash);
    for (const std::string& name : value_datasets(schema.kind, *group)) {
      const std::int64_t all = name == "labels" || name == "targets" ? group->units : group->values;
      const std::int64_t n = std::min(kSampled, all);
      std::vector<double> values(static_cast<std::size_t>(2 * n));
      file.read_rows(group->path(name), 0, static_cast<std::uint64_t>(n), values.data());
      file.read_rows(group->path(name), static_cast<std::uint64_t>(all - n), static_cast<std::uint64_t>(n),
                     values.data() + n);
      hash = hash_bytes(std::as_bytes(std::span(values)), hash);
    }
  }
  return hash ^ hash_of_external_files(file);
}

/// The larger of what is known and one more than the largest number of a column.
Index lines_of(const hdf5::File& file, const SparseSchema& schema, Index known, bool rows) {
  if (known != 0) return known;
  std::int64_t most = 0, ratings = 0;
  for (const auto& group : schema.groups) {
    if (!group) continue;
    ratings += group->units;
    const EntryColumns columns = entry_columns(schema, *group);
    visit_numbers(file, rows ? columns.rows : columns.columns, {0, group->units},
                  rows ? columns.row_limit : columns.column_limit,
                  [&](std::int64_t, std::span<const std::int64_t> values) {
                    for (const std::int64_t value : values) most = std::max(most, value + 1);
                  });
  }
  const std::int64_t many = 64 * std::max<std::int64_t>(1024, ratings);
  if (most > many) {
    throw DataError(
        fmt::format("{}: has {} ratings, but numbers of {} up to {}, and the model has a row for each number; number "
                    "them from 0 up without gaps, or use 'unisono data import ratings'",
                    file.path(), ratings, rows ? "users" : "items", most - 1));
  }
  return most;
}

std::int64_t count_classes(const hdf5::File& file, const SparseSchema& schema) {
  SetSchema set;
  set.path = schema.path;
  set.classes = schema.classes;
  if (!set.classes && !schema.class_names.empty()) set.classes = static_cast<std::int64_t>(schema.class_names.size());
  std::array<std::int32_t, 3> largest{-1, -1, -1};
  bool any = false;
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const auto& group = schema.groups[i];
    if (!group || !group->has_labels) continue;
    any = true;
    largest[i] = largest_label(file, group->path("labels"), {0, group->units});
  }
  return any ? count_classes(set, largest) : 0;
}

}  // namespace

DatasetInfo sparse_info(const hdf5::File& file, SparseSchema& schema, const DataSettings& settings,
                        const std::optional<GroupDivision>& division) {
  DatasetInfo info;
  info.kind = schema.kind;
  if (schema.kind == SetKind::ratings) {
    schema.rows = lines_of(file, schema, schema.rows, true);
    schema.columns = lines_of(file, schema, schema.columns, false);
  }
  info.rows = schema.rows;
  info.columns = schema.columns;
  if (schema.kind == SetKind::sparse) {
    info.features = {.channels = schema.columns};
    info.classes = count_classes(file, schema);
    info.normalization = normalization_of(settings, schema.recipe);
    const auto& train = schema.group(Split::train);
    if (train && train->units > 0) {
      info.row_values = static_cast<double>(train->values) / static_cast<double>(train->units);
    }
  }
  std::array<std::int64_t, 3> examples{};
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto& group = schema.groups[i];
    if (!group) continue;
    examples[i] = group->examples(schema.kind);
    if (group->has_targets) info.target_size = 1;
    info.targets[i] = {.labels = group->has_labels, .target_size = group->has_targets ? 1 : 0};
  }
  if (settings.validation_fraction > 0) {
    examples[1] =
        division ? std::ssize(division->fold.validation) : held_out_examples(examples[0], settings.validation_fraction);
    examples[0] -= examples[1];
    if (division) info.groups = division->groups;
    if (division) info.held_out_groups = division->held_out;
    info.targets[1] = info.targets[0];
  }
  if (schema.kind == SetKind::ratings) info.grid = RatingGrid::side(info.rows, info.columns, examples[0]);
  info.train = examples[0];
  info.validation = examples[1];
  info.test = examples[2];
  info.identity = identity_of(file, schema);
  return info;
}

void check_settings(const DataSettings& settings, const SparseSchema& schema) {
  const auto refuse = [&](bool wrong, std::string_view key, std::string_view why) {
    if (wrong) {
      throw ConfigError(
          fmt::format("data.{}: {} holds {}, {}; remove it", key, schema.path, name_of(schema.kind), why));
    }
  };
  refuse(settings.targets == Targets::features, "targets", "which cannot be its own target");
  const NormalizationKind scaling = settings.normalization;
  if (schema.kind == SetKind::sparse &&
      (scaling == NormalizationKind::global || scaling == NormalizationKind::channel)) {
    throw ConfigError(
        fmt::format("data.normalization: {} holds sparse rows, from which no mean is subtracted, because their zeros "
                    "would no longer be zeros; use \"feature\", which divides each column by its standard deviation",
                    schema.path));
  }
  refuse(
      schema.kind != SetKind::sparse && scaling != NormalizationKind::none && scaling != NormalizationKind::automatic,
      "normalization", "which has no features to be normalised");
  refuse(settings.reader == Reader::streaming, "reader", "which is always read into memory");
  refuse(settings.partition == Partition::fixed, "partition", "which the ranks of a node share in memory");
  refuse(has_effect(settings.augmentation), "augmentation", "not images");
  refuse(settings.pictures.any(), "pictures", "which has no pictures");
  if (settings.validation_fraction == 0) return;
  if (schema.kind == SetKind::text || schema.kind == SetKind::cooccurrences) {
    refuse(true, "validation_fraction", "which cannot be split here");
  }
  if (schema.group(Split::validation)) {
    throw ConfigError(fmt::format("data.validation_fraction = {} but {} has a group 'validation'; remove one of them",
                                  settings.validation_fraction, schema.path));
  }
}

void require_few_columns(const DataSettings& settings, const SparseSchema& schema) {
  constexpr Index kMostColumns = Index{1} << 22;
  const bool scaled =
      schema.kind == SetKind::sparse && normalization_of(settings, schema.recipe) != NormalizationKind::none;
  if (!scaled || schema.columns <= kMostColumns) return;
  throw ConfigError(
      fmt::format("data.normalization: {} has {} columns, and checkpoints hold factors of at most {}; set it to "
                  "\"none\", and scale the values before the import where they need it",
                  schema.path, grouped(schema.columns), grouped(kMostColumns)));
}

}  // namespace unisono::data
