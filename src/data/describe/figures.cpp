#include "describe/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "dense/feature_writer.hpp"
#include "dense/schema.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kShownClasses = 20;

constexpr std::int64_t kMostBlocks = 256;
constexpr std::size_t kMostClasses = 1 << 24;  // that are counted

/// Calls visit for the rows of evenly spaced blocks. \return the number of these rows
template <typename Visit>
std::int64_t visit_blocks(const hdf5::File& file, const GroupSchema& group, Visit visit) {
  const std::int64_t rows = block_rows(group), blocks = (group.examples + rows - 1) / rows;
  const std::int64_t visited = std::min(blocks, kMostBlocks);
  std::int64_t examples = 0;
  for (std::int64_t i = 0; i < visited; ++i) {
    const std::int64_t first = part_of(blocks, i, visited).first * rows;
    OwnedRows read(group, {first, std::min(first + rows, group.examples)});
    read.block.read(file, group, read.block.rows());
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

std::string balance_text(const std::vector<std::int64_t>& counts, const std::vector<std::string>& names) {
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::string text;
  for (std::size_t i = 0; i < std::min(counts.size(), kShownClasses); ++i) {
    const std::string name = i < names.size() ? " " + names[i] : "";
    text +=
        fmt::format("            {:>3}{:<16} {:>10} {:>7}\n", i, name, grouped(counts[i]), share_text(counts[i], all));
  }
  if (counts.size() > kShownClasses)
    text += fmt::format("            … and {} more classes\n", counts.size() - kShownClasses);
  return text;
}

std::string title_text(const hdf5::File& file) {
  return fmt::format("{}: {}, ", file.path(), size_text(static_cast<double>(std::filesystem::file_size(file.path()))));
}

std::string survey_text(const Survey& survey) {
  return fmt::format("{:.4g} to {:.4g}, mean {:.4g}, deviation {:.4g}", survey.low, survey.high, survey.mean,
                     survey.deviation);
}

Survey survey_features(const hdf5::File& file, const GroupSchema& group) {
  Tally tally;
  std::vector<float> values(static_cast<std::size_t>(group.features.size()));
  const std::int64_t examples = visit_blocks(file, group, [&](const RawExample& example) {
    convert(group.storage, example.features, values.size(), group.scale, group.offset, values.data());
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
