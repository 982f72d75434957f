#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>

#include "dense/feature_writer.hpp"
#include "dense/schema.hpp"
#include "describe/figures.hpp"
#include "recipe/encoder.hpp"
#include "set/external.hpp"
#include "set/form.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/file_pattern.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/data/dataset.hpp"

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
    return fmt::format("  {:20} {}: {}\n", on_one_line(column.name), count_of(std::ssize(levels), "category"),
                       listed(levels));
  }
  const std::string missing = survey.missing > 0 ? fmt::format(", {} missing", survey.missing) : "";
  if (survey.missing == rows) return fmt::format("  {:20} numbers, all of them missing\n", on_one_line(column.name));
  return fmt::format("  {:20} {}{}\n", on_one_line(column.name),
                     survey_text(survey.tally.survey(rows - survey.missing)), missing);
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
  if (group.pictures) {
    const auto bytes = static_cast<double>(group.feature_bytes());
    return fmt::format("  pictures  {} in {} of JPEG and PNG files\n            {}\n", grouped(group.examples),
                       size_text(bytes), range_text(survey_features(file, group), group.examples));
  }
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

/// Of examples that may have several labels each: how many they have, and which.
std::string several_labels_text(const hdf5::File& file, const GroupSchema& group,
                                const std::vector<std::string>& names) {
  constexpr std::int64_t kRowsAtATime = 4096;
  const std::size_t labels = names.size();
  std::vector<std::int64_t> counts(labels), sizes(labels + 1);  // sizes: how many examples have 0, 1, … labels
  std::vector<float> rows;
  for (std::int64_t first = 0; first < group.examples; first += kRowsAtATime) {
    const auto count = static_cast<std::size_t>(std::min(kRowsAtATime, group.examples - first));
    rows.resize(count * labels);
    file.read_rows(group.targets_path(), static_cast<std::uint64_t>(first), count, rows.data());
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t size = 0;
      for (std::size_t k = 0; k < labels; ++k) {
        if (!(rows[i * labels + k] > 0.5F)) continue;
        ++counts[k];
        ++size;
      }
      ++sizes[size];
    }
  }
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const auto largest = std::find_if(sizes.rbegin(), sizes.rend(), [](std::int64_t n) { return n > 0; });
  const auto shape = file.shape(group.targets_path());
  return fmt::format("  targets   {} {}: an example may have several of {}\n", hdf5::name_of(shape.type), shape.extent,
                     count_of(std::ssize(names), "label")) +
         fmt::format("            {:.3g} labels an example, at most {}; {} without any ({})\n",
                     static_cast<double>(all) / static_cast<double>(group.examples), sizes.rend() - largest - 1,
                     grouped(sizes[0]), share_text(sizes[0], group.examples)) +
         balance_text(counts, names, group.examples);
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
  const OwnedBlock first(file, group, {0, std::min(kShownExamples, group.examples)});
  StoredNumbers numbers(group);
  std::vector<std::vector<float>> values;
  for (std::int64_t row = 0; row < first.block.rows().last; ++row) {
    values.emplace_back(static_cast<std::size_t>(group.features.size()));
    convert(group.storage, numbers.of(first.block.example(row)), values.back().size(), group.scale, group.offset,
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

std::string describe_set(const std::string& path, bool external_files) {
  check_seal(path);
  const hdf5::File file = open_set_file(path, external_files);
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
    if (group->target_size > 0) {
      text += set.label_names.empty() ? targets_text(file, *group) : several_labels_text(file, *group, set.label_names);
    }
    text += beside_text(file, *group);
  }
  return text + examples_text(file, set.any_group());
}

std::optional<std::string> describe_sparse(const hdf5::File& file) {
  for (const std::string group : {"train", "validation", "test"}) {
    if (file.exists(group + "/features/indptr")) return describe_csr(file);
    if (file.exists(group + "/ratings")) return describe_ratings(file);
    if (file.exists(group + "/sentences")) return describe_text(file);
    if (file.exists(group + "/tokens")) return describe_tokens(file);
    if (file.exists(group + "/counts")) return describe_cooccurrences(file);
  }
  return std::nullopt;
}

namespace {

constexpr std::size_t kShownClasses = 20;

constexpr std::int64_t kMostBlocks = 256, kMostBlocksOfPictures = 32;
constexpr std::size_t kMostClasses = 1 << 24;  // that are counted

/// Calls visit for the rows of evenly spaced blocks. \return the number of these rows
template <typename Visit>
std::int64_t visit_blocks(const hdf5::File& file, const GroupSchema& group, Visit visit) {
  const std::int64_t rows = block_rows(group), blocks = (group.examples + rows - 1) / rows;
  const std::int64_t visited = std::min(blocks, group.pictures ? kMostBlocksOfPictures : kMostBlocks);
  std::int64_t examples = 0;
  for (std::int64_t i = 0; i < visited; ++i) {
    const std::int64_t first = part_of(blocks, i, visited).first * rows;
    const OwnedBlock read(file, group, {first, std::min(first + rows, group.examples)});
    for (std::int64_t row = read.block.rows().first; row < read.block.rows().last; ++row)
      visit(read.block.example(row));
    examples += read.block.rows().size();
  }
  return examples;
}

constexpr std::string_view kShades = " .:-=+*#%@";
constexpr Index kWidest = 32;       // characters an image
constexpr Index kLineLength = 118;  // characters

/// Mean over the channels of the pixels [y0, y1) × [x0, x1).
float mean_of(const std::vector<float>& image, const FeatureShape& shape, Index y0, Index y1, Index x0, Index x1) {
  double sum = 0;
  for (Index c = 0; c < shape.channels; ++c) {
    for (Index y = y0; y < y1; ++y) {
      for (Index x = x0; x < x1; ++x) sum += image[static_cast<std::size_t>((c * shape.height + y) * shape.width + x)];
    }
  }
  return static_cast<float>(sum / static_cast<double>(shape.channels * (y1 - y0) * (x1 - x0)));
}

char shade_of(float value, float low, float high) {
  const float share = high > low ? (value - low) / (high - low) : 0.0F;
  const auto last = static_cast<float>(kShades.size() - 1);
  return kShades[static_cast<std::size_t>(std::clamp(share * last + 0.5F, 0.0F, last))];
}

std::string shade_row(const std::vector<float>& image, const FeatureShape& shape, Index top, Index reduction) {
  const auto [low, high] = std::minmax_element(image.begin(), image.end());
  std::string line;
  const Index bottom = std::min(top + 2 * reduction, shape.height);
  for (Index left = 0; left < shape.width; left += reduction) {
    const Index right = std::min(left + reduction, shape.width);
    line += shade_of(mean_of(image, shape, top, bottom, left, right), *low, *high);
  }
  return line;
}

}  // namespace

std::string size_text(double bytes) {
  constexpr std::string_view units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

std::string share_text(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string labels_line(std::string_view type, const std::vector<std::int64_t>& counts) {
  const auto used = std::count_if(counts.begin(), counts.end(), [](std::int64_t n) { return n > 0; });
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return fmt::format("  labels    {}, {} classes, {} to {} examples each\n", type, used, grouped(*least),
                     grouped(*most));
}

std::string balance_text(const std::vector<std::int64_t>& counts, const std::vector<std::string>& names,
                         std::optional<std::int64_t> whole) {
  const std::int64_t all = whole ? *whole : std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::string text;
  for (std::size_t i = 0; i < std::min(counts.size(), kShownClasses); ++i) {
    const std::string name = i < names.size() ? " " + on_one_line(names[i]) : "";
    text +=
        fmt::format("            {:>3}{:<16} {:>10} {:>7}\n", i, name, grouped(counts[i]), share_text(counts[i], all));
  }
  if (counts.size() > kShownClasses)
    text += fmt::format("            … and {} more classes\n", counts.size() - kShownClasses);
  return text;
}

std::string title_text(const hdf5::File& file) {
  const std::vector<std::string> paths = files_of(file.path());
  double bytes = 0;
  for (const std::string& path : paths) bytes += static_cast<double>(std::filesystem::file_size(path));
  const std::string files = paths.size() > 1 ? count_of(std::ssize(paths), "file") + ", " : "";
  return fmt::format("{}: {}{}, ", file.path(), files, size_text(bytes));
}

std::string survey_text(const Survey& survey) {
  return fmt::format("{:.4g} to {:.4g}, mean {:.4g}, deviation {:.4g}", survey.low, survey.high, survey.mean,
                     survey.deviation);
}

Survey survey_features(const hdf5::File& file, const GroupSchema& group) {
  Tally tally;
  StoredNumbers numbers(group);
  std::vector<float> values(static_cast<std::size_t>(group.features.size()));
  const std::int64_t examples = visit_blocks(file, group, [&](const RawExample& example) {
    convert(group.storage, numbers.of(example), values.size(), group.scale, group.offset, values.data());
    for (const float value : values) tally.add(value);
  });
  return tally.survey(examples);
}

Survey survey_targets(const hdf5::File& file, const GroupSchema& group) {
  Tally tally;
  const std::int64_t examples = visit_blocks(file, group, [&](const RawExample& example) {
    for (Index i = 0; i < group.target_size; ++i) tally.add(example.targets[i]);
  });
  return tally.survey(examples);
}

std::vector<std::int64_t> count_labels(const hdf5::File& file, const GroupSchema& group) {
  constexpr std::int64_t rows_at_a_time = 1 << 18;
  std::vector<std::int64_t> counts;
  for (std::int64_t first = 0; first < group.examples; first += rows_at_a_time) {
    const Range rows{first, std::min(first + rows_at_a_time, group.examples)};
    std::vector<std::int32_t> labels(static_cast<std::size_t>(rows.size()));
    read_labels(file, group.labels_path(), rows, labels.data());
    const auto largest = static_cast<std::size_t>(*std::max_element(labels.begin(), labels.end()));
    if (largest >= kMostClasses) {
      throw DataError(fmt::format("{}: /{}: a label is {}; labels are class numbers from 0 up", file.path(),
                                  group.labels_path(), largest));
    }
    if (largest >= counts.size()) counts.resize(largest + 1);
    for (const std::int32_t label : labels) ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

std::string draw_images(const std::vector<std::vector<float>>& images, const FeatureShape& shape) {
  const Index reduction = (shape.width + kWidest - 1) / kWidest, columns = (shape.width + reduction - 1) / reduction;
  const auto fitting = static_cast<std::size_t>(std::max<Index>(1, (kLineLength + 1) / (columns + 1)));
  std::string text;
  for (Index top = 0; top < shape.height; top += 2 * reduction) {
    std::string line;
    for (std::size_t i = 0; i < std::min(images.size(), fitting); ++i) {
      line += (i > 0 ? "|" : "") + shade_row(images[i], shape, top, reduction);
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace unisono::data
