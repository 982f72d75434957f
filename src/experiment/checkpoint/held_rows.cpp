#include "checkpoint/held_rows.hpp"

#include <algorithm>
#include <utility>

namespace unisono::experiment {

bool is_parted(const HeldState& state) {
  return std::any_of(state.begin(), state.end(), [](const HeldVector& vector) { return !vector.common; });
}

HeldVector whole_vector(std::string group, const ParameterLayout& layout, MutableView values, Allocator& memory) {
  HeldVector vector{.group = std::move(group), .layout = layout, .values = values, .rows = {}, .memory = &memory};
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    const Block& block = layout.blocks()[i];
    vector.rows.push_back({.block = i, .first = 0, .step = 1, .count = block.shape.front(), .offset = block.offset});
  }
  return vector;
}

strategies::HeldRows some_of(const strategies::HeldRows& rows, const Block& block, comm::Slice slice) {
  return {.block = rows.block,
          .first = rows.first + slice.first * rows.step,
          .step = rows.step,
          .count = slice.last - slice.first,
          .offset = rows.offset + slice.first * block.row_stride()};
}

std::vector<strategies::HeldRows> rows_to_write(const HeldVector& vector, int writer, int writers) {
  if (!vector.common) return vector.rows;
  std::vector<strategies::HeldRows> shares;
  for (const strategies::HeldRows& rows : vector.rows) {
    if (writer >= writers) break;
    shares.push_back(some_of(rows, vector.layout.blocks()[rows.block], comm::slice_of(rows.count, writer, writers)));
  }
  return shares;
}

}  // namespace unisono::experiment
