#include "dense/encoded_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "recipe/fit.hpp"

namespace unisono::data {
namespace {

/// Whether two fits of a column give it the same features; their scaling may differ.
bool encode_alike(const FittedColumn& one, const FittedColumn& other) {
  return one.fill == other.fill && one.levels == other.levels && one.other == other.other;
}

}  // namespace

RawTable::RawTable(const SetSchema& schema) {
  const hdf5::File file(schema.path, hdf5::File::Mode::read);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const auto& group = schema.groups[i];
    if (!group) continue;
    groups_[i].resize(static_cast<std::size_t>(group->examples) * schema.recipe.columns.size());
    file.read_rows(group->features_path(), 0, static_cast<std::uint64_t>(group->examples), groups_[i].data());
  }
}

EncodedTable::EncodedTable(const RawTable& raw, const Preprocessing& whole, const GroupBlocks& answers,
                           const SetPlan& fold) {
  const SetSchema& schema = fold.schema;
  columns_ =
      fit_columns(schema.recipe, raw.rows(fold.home(*fold.group(Split::train))), fold.rows(Split::train), schema.path);
  differs_ = !std::equal(columns_.begin(), columns_.end(), whole.columns.begin(), whole.columns.end(), encode_alike);
  if (!differs_) return;
  Preprocessing fitted = whole;
  fitted.columns = columns_;
  const Encoder encoder(fitted, schema.recipe, schema.path);
  width_ = encoder.width();
  for (const Split split : kSplits) {
    const GroupSchema* group = fold.group(split);
    if (group == nullptr) continue;
    const std::size_t home = fold.home(*group);
    const std::string where = fmt::format("{}: /{}", schema.path, group->features_path());
    Buffer& features = features_[home];
    if (features.size() == 0) features = Buffer(group->examples * width_);
    blocks_[home] = answers[home].with_features(features.data(), width_);
    for (const auto& run : fold.rows(split).runs({0, fold.rows(split).size()})) {
      for (std::int64_t row = run.first_row; row < run.first_row + run.rows; ++row) {
        encoder.encode(raw.rows(home).data() + row * encoder.raw_width(), features.data() + row * width_, where, row);
      }
    }
  }
}

}  // namespace unisono::data
