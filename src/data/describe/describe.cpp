#include "unisono/data/dataset.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "dense/feature_writer.hpp"
#include "dense/schema.hpp"
#include "describe/figures.hpp"
#include "recipe/encoder.hpp"
#include "set/form.hpp"
#include "unisono/base/text.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kMostRows = 1 << 16;  // rows from which the figures are computed

struct ColumnSurvey {
  Tally tally;
  std::int64_t missing = 0;
};

/// The figures of each column, over the first rows of a group.
std::vector<ColumnSurvey> survey_columns(const hdf5::File& file, const GroupSchema& group, const Recipe& recipe,
                                         std::int64_t rows) {
  const std::size_t width = recipe.columns.size();
  std::vector<float> raw(static_cast<std::size_t>(rows) * width);
  file.read_rows(group.features_path(), 0, static_cast<std::uint64_t>(rows), raw.data());
  std::vector<ColumnSurvey> columns(width);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    ColumnSurvey& column = columns[i % width];
    std::isnan(raw[i]) ? void(++column.missing) : column.tally.add(raw[i]);
  }
  return columns;
}

std::string column_text(const RecipeColumn& column, const ColumnSurvey& survey, std::int64_t rows) {
  if (column.kind == ColumnKind::category) {
    std::vector<std::string> levels = column.levels;
    std::replace(levels.begin(), levels.end(), std::string(), std::string("(missing)"));
    return fmt::format("  {:20} {}: {}\n", column.name, count_of(std::ssize(levels), "category"), listed(levels));
  }
  const std::string missing = survey.missing > 0 ? fmt::format(", {} missing", survey.missing) : "";
  if (survey.missing == rows) return fmt::format("  {:20} numbers, all of them missing\n", column.name);
  return fmt::format("  {:20} {}{}\n", column.name, survey_text(survey.tally.survey(rows - survey.missing)), missing);
}

std::string policy_text(const Recipe& recipe) {
  const char* scaling = recipe.scaling == Scaling::standard  ? "standard (mean 0, standard deviation 1)"
                        : recipe.scaling == Scaling::min_max ? "min_max (0 to 1)"
                                                             : "none";
  const char* missing =
      recipe.missing == Missing::mean     ? "numbers become the mean; missing categories are a category of their own"
      : recipe.missing == Missing::median ? "numbers become the median; missing categories are a category of their own"
                                          : "refused";
  const std::string unknown =
      recipe.unknown == Unknown::error ? "refused"
      : recipe.minimum_frequency > 1
          ? fmt::format("become 'other', as do categories of fewer than {} training rows", recipe.minimum_frequency)
          : "become 'other'";
  return fmt::format("scaling of numbers: {}\nmissing values: {}\nunknown categories: {}\n", scaling, missing, unknown);
}

/// A line for each column of a set with a recipe, and how a run encodes it.
std::string recipe_text(const hdf5::File& file, const SetSchema& set) {
  const GroupSchema& group = set.any_group();
  const std::int64_t rows = std::min(kMostRows, group.examples);
  const std::vector<ColumnSurvey> surveys = survey_columns(file, group, set.recipe, rows);
  std::string text =
      fmt::format("raw values of {} column{}\n", set.recipe.columns.size(), set.recipe.columns.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < surveys.size(); ++i) text += column_text(set.recipe.columns[i], surveys[i], rows);
  if (rows < group.examples) text += fmt::format("  (figures of the first {} rows of {})\n", rows, group.name);
  return text + policy_text(set.recipe);
}

constexpr std::int64_t kShownExamples = 6;
constexpr std::size_t kShownFeatures = 8;

std::string storage_text(const hdf5::DatasetShape& shape) {
  if (shape.chunk.empty()) return "contiguous";
  return fmt::format("in chunks of {}{}", shape.chunk, shape.compressed ? ", compressed" : "");
}

std::string range_text(const Survey& survey, std::int64_t examples) {
  std::string text = survey_text(survey);
  if (survey.examples < examples) text += fmt::format(" (of {} examples that were examined)", grouped(survey.examples));
  return text;
}

std::string features_text(const hdf5::File& file, const GroupSchema& group) {
  std::string text = fmt::format("  features  {} {}, {}\n", hdf5::name_of(group.stored.type), group.stored.extent,
                                 storage_text(group.stored));
  if (group.raw) return text;
  if (group.scale != 1 || group.offset != 0)
    text += fmt::format("            value = {:.6g} · stored + {:.6g}\n", group.scale, group.offset);
  return text + fmt::format("            {}\n", range_text(survey_features(file, group), group.examples));
}

std::string labels_text(const hdf5::File& file, const GroupSchema& group, const std::vector<std::string>& names) {
  const std::vector<std::int64_t> counts = count_labels(file, group);
  return labels_line(hdf5::name_of(file.shape(group.labels_path()).type), counts) + balance_text(counts, names);
}

std::string targets_text(const hdf5::File& file, const GroupSchema& group) {
  const auto shape = file.shape(group.targets_path());
  return fmt::format("  targets   {} {}\n            {}\n", hdf5::name_of(shape.type), shape.extent,
                     range_text(survey_targets(file, group), group.examples));
}

/// What lies beside features and answers: which rows belong together, their times and weights.
std::string beside_text(const hdf5::File& file, const GroupSchema& group) {
  std::string text;
  for (const char* name : {"groups", "times", "weights"}) {
    const std::string path = group.name + "/" + name;
    if (!file.exists(path)) continue;
    const auto shape = file.shape(path);
    text += fmt::format("  {:9} {} {}\n", name, hdf5::name_of(shape.type), shape.extent);
  }
  return text;
}

/// The first examples: pictures, or some numbers.
std::string examples_text(const hdf5::File& file, const GroupSchema& group) {
  OwnedRows first(group, {0, std::min(kShownExamples, group.examples)});
  first.block.read(file, group, first.block.rows());
  std::vector<std::vector<float>> values;
  for (std::int64_t row = 0; row < first.block.rows().last; ++row) {
    values.emplace_back(static_cast<std::size_t>(group.features.size()));
    convert(group.storage, first.block.features(row), values.back().size(), group.scale, group.offset,
            values.back().data());
  }
  std::string text = fmt::format("\nfirst examples of {}{}:\n", group.name,
                                 group.raw ? ", as they are stored (categories as numbers, from 0)" : "");
  if (group.features.width > 1) return text + draw_images(values, group.features);
  for (auto& row : values) {
    const bool more = row.size() > kShownFeatures;
    row.resize(std::min(row.size(), kShownFeatures));
    text += fmt::format("  {:.5g}{}\n", fmt::join(row, ", "), more ? ", …" : "");
  }
  return text;
}

std::string shape_text(const FeatureShape& shape) {
  if (shape.height == 1 && shape.width == 1) return count_of(shape.channels, "feature");
  return fmt::format("{} channel{} of {} × {}", shape.channels, shape.channels == 1 ? "" : "s", shape.height,
                     shape.width);
}

/// How four axes are read, and how they could be.
std::string features_shape_text(const GroupSchema& group) {
  std::string text = fmt::format("examples of {}", shape_text(group.features));
  const auto& extent = group.stored.extent;
  if (extent.size() == 4) {
    text += group.channels_last ? " (channels last: the file's attribute layout says so)"
                                : fmt::format(" (channels first; with data.layout = \"hwc\": {} channel{} of {} × {})",
                                              extent[3], extent[3] == 1 ? "" : "s", extent[1], extent[2]);
  }
  return text + "\n";
}

}  // namespace

std::string describe_set(const std::string& path) {
  check_seal(path);
  const hdf5::File file(path, hdf5::File::Mode::read);
  if (const auto sparse = describe_sparse(file)) return *sparse;
  const SetSchema set =
      read_schema(file, {.needs_training = false, .needs_answers = false, .layout = ImageLayout::chw});
  const GroupSchema& any = set.any_group();
  std::string text = title_text(file) + (any.raw ? recipe_text(file, set) : features_shape_text(any));
  for (const auto& group : set.groups) {
    if (!group) continue;
    text += fmt::format("\n{}: {}, {} in memory\n", group->name, count_of(group->examples, "example"),
                        size_text(static_cast<double>(group->examples * group->bytes_per_example())));
    text += features_text(file, *group);
    if (group->has_labels) text += labels_text(file, *group, set.class_names);
    if (group->target_size > 0) text += targets_text(file, *group);
    text += beside_text(file, *group);
  }
  return text + examples_text(file, set.any_group());
}

std::optional<std::string> describe_sparse(const hdf5::File& file) {
  for (const std::string group : {"train", "validation", "test"}) {
    if (file.exists(group + "/features/indptr")) return describe_csr(file);
    if (file.exists(group + "/ratings")) return describe_ratings(file);
    if (file.exists(group + "/sentences")) return describe_text(file);
    if (file.exists(group + "/counts")) return describe_cooccurrences(file);
  }
  return std::nullopt;
}

}  // namespace unisono::data
