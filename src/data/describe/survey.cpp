#include "describe/survey.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dense/convert.hpp"
#include "dense/labels.hpp"
#include "describe/tally.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

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

}  // namespace

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

}  // namespace unisono::data
