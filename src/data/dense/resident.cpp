#include "dense/resident.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "recipe/fit.hpp"

namespace unisono::data {
namespace {

/// Whether two fits of a column give it the same features; their scaling may differ.
bool encode_alike(const FittedColumn& one, const FittedColumn& other) {
  return one.fill == other.fill && one.levels == other.levels && one.other == other.other;
}

std::size_t total_bytes(const SetPlan& plan) {
  std::size_t bytes = 0;
  for (const auto& group : plan.schema.groups) {
    if (group) bytes += RowBlock::bytes(*group, group->examples);
  }
  return bytes;
}

/// This rank's part of a group's rows, in whole blocks, so that no chunk of the file is read twice.
Range part_in_blocks(const GroupSchema& group, const NodeMemory& memory) {
  const std::int64_t rows = block_rows(group), blocks = (group.examples + rows - 1) / rows;
  const Range part = memory.part(blocks);
  return {std::min(part.first * rows, group.examples), std::min(part.last * rows, group.examples)};
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

SharedRows::SharedRows(const SetPlan& plan, const NodeShare& share) : plan_(plan), memory_(share, total_bytes(plan)) {}

void SharedRows::read(const hdf5::File& file) {
  memory_.take_own();
  std::byte* base = memory_.data();
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto& group = plan_.schema.groups[i];
    if (!group) continue;
    blocks_[i] = RowBlock(*group, {0, group->examples}, base);
    base += RowBlock::bytes(*group, group->examples);
    blocks_[i].read(file, *group, part_in_blocks(*group, memory_));
  }
}

const RowBlock& OwnRows::block(const hdf5::File& file, const GroupSchema& group, Range rows) {
  for (const ResidentGroup& part : parts_) {
    const Range held = part.rows.block.rows();
    if (part.group == &group && held.first <= rows.first && rows.last <= held.last) return part.rows.block;
  }
  parts_.push_back({&group, OwnedRows(group, rows)});
  parts_.back().rows.block.read(file, group, rows);
  return parts_.back().rows.block;
}

}  // namespace unisono::data
