#include "dense/resident.hpp"

#include <algorithm>

namespace unisono::data {
namespace {

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
