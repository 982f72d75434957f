#pragma once

#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono {

/// Rows of a block that this rank holds: of its canonical form rows first, first + step, … They are stored in the
/// rank's vector from float `offset` on, each Block::row_stride() behind the one before.
struct HeldRows {
  std::size_t block = 0;  ///< its number in the layout
  Index first = 0, step = 1, count = 0;
  Index offset = 0;
};

/// A vector with the blocks of a layout, as far as this rank holds it.
struct HeldVector {
  std::string group;  ///< that a checkpoint keeps it in: "parameters", "optimizer/1/velocity"
  const ParameterLayout& layout;
  MutableView values;
  std::vector<HeldRows> rows;
  bool common = true;  ///< whether all ranks hold the same rows; else each row is held by one rank
};
using HeldState = std::vector<HeldVector>;

/// A vector that this rank holds all of, in the layout's order.
HeldVector whole_vector(std::string group, const ParameterLayout& layout, MutableView values);

/// Some of the rows, counted from the first one held.
HeldRows some_of(const HeldRows& rows, const Block& block, Slice slice);

/// What one of several writers writes of a vector: all that it holds, or its share of each block that all hold.
std::vector<HeldRows> rows_to_write(const HeldVector& vector, int writer, int writers);

}  // namespace unisono
