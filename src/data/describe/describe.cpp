#include "unisono/data/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "describe/picture.hpp"
#include "describe/survey.hpp"
#include "set/convert.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kShownExamples = 6;
constexpr std::size_t kShownClasses = 20, kShownFeatures = 8;

/// 60000 → "60,000"
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string size_text(double bytes) {
  constexpr std::string_view units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

std::string storage_text(const hdf5::DatasetShape& shape) {
  if (shape.chunk.empty()) return "contiguous";
  return fmt::format("in chunks of {}{}", shape.chunk, shape.compressed ? ", compressed" : "");
}

std::string range_text(const Survey& survey, std::int64_t examples) {
  std::string text = fmt::format("{:.4g} to {:.4g}, mean {:.4g}, deviation {:.4g}", survey.low, survey.high,
                                 survey.mean, survey.deviation);
  if (survey.examples < examples)
    text += fmt::format(" (of {} examples that were looked at)", grouped(survey.examples));
  return text;
}

std::string features_text(const hdf5::File& file, const GroupSchema& group) {
  std::string text = fmt::format("  features  {} {}, {}\n", name_of(group.stored.type), group.stored.extent,
                                 storage_text(group.stored));
  if (group.scale != 1 || group.offset != 0)
    text += fmt::format("            value = {:.6g} · stored + {:.6g}\n", group.scale, group.offset);
  return text + fmt::format("            {}\n", range_text(survey_features(file, group), group.examples));
}

std::string labels_text(const hdf5::File& file, const GroupSchema& group, const std::vector<std::string>& names) {
  const std::vector<std::int64_t> counts = count_labels(file, group);
  const auto used = std::count_if(counts.begin(), counts.end(), [](std::int64_t n) { return n > 0; });
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  std::string text = fmt::format("  labels    {}, {} classes, {} to {} examples each\n",
                                 name_of(file.shape(group.labels_path()).type), used, grouped(*least), grouped(*most));
  for (std::size_t i = 0; i < std::min(counts.size(), kShownClasses); ++i) {
    const double share = 100.0 * static_cast<double>(counts[i]) / static_cast<double>(group.examples);
    const std::string name = i < names.size() ? " " + names[i] : "";
    text += fmt::format("            {:>3}{:<16} {:>10} {:5.1f} %\n", i, name, grouped(counts[i]), share);
  }
  if (counts.size() > kShownClasses)
    text += fmt::format("            … and {} more classes\n", counts.size() - kShownClasses);
  return text;
}

std::string targets_text(const hdf5::File& file, const GroupSchema& group) {
  const auto shape = file.shape(group.targets_path());
  return fmt::format("  targets   {} {}\n            {}\n", name_of(shape.type), shape.extent,
                     range_text(survey_targets(file, group), group.examples));
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
  std::string text = fmt::format("\nfirst examples of {}:\n", group.name);
  if (group.features.width > 1) return text + draw_images(values, group.features);
  for (auto& row : values) {
    const bool more = row.size() > kShownFeatures;
    row.resize(std::min(row.size(), kShownFeatures));
    text += fmt::format("  {:.5g}{}\n", fmt::join(row, ", "), more ? ", …" : "");
  }
  return text;
}

std::string shape_text(const FeatureShape& shape) {
  if (shape.height == 1 && shape.width == 1) return fmt::format("{} features", shape.channels);
  return fmt::format("{} channel{} of {} × {}", shape.channels, shape.channels == 1 ? "" : "s", shape.height,
                     shape.width);
}

}  // namespace

}  // namespace unisono::data

namespace unisono {

std::string describe_set(const std::string& path) {
  using namespace data;
  const hdf5::File file(path, hdf5::File::Mode::read);
  const SetSchema set = read_schema(file, {.needs_training = false, .needs_answers = false});
  std::string text =
      fmt::format("{}: {}, examples of {}\n", path, size_text(static_cast<double>(std::filesystem::file_size(path))),
                  shape_text(set.any_group().features));
  for (const auto& group : set.groups) {
    if (!group) continue;
    text += fmt::format("\n{}: {} examples, {} in memory\n", group->name, grouped(group->examples),
                        size_text(static_cast<double>(group->examples * group->bytes_per_example())));
    text += features_text(file, *group);
    if (group->has_labels) text += labels_text(file, *group, set.class_names);
    if (group->target_size > 0) text += targets_text(file, *group);
  }
  return text + examples_text(file, set.any_group());
}

}  // namespace unisono
