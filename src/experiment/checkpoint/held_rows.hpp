#pragma once

#include <string>
#include <utility>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/strategies/division.hpp"

namespace unisono::experiment {

/// A vector with the blocks of a layout, as far as this rank holds it.
struct HeldVector {
  std::string group;  ///< that a checkpoint keeps it in: "parameters", "optimizer/1/velocity"
  const ParameterLayout& layout;
  MutableView values;
  std::vector<strategies::HeldRows> rows;
  bool common = true;                      ///< whether all ranks hold the same rows; else each row is held by one rank
  Allocator* memory = &plain_allocator();  ///< that the values lie in
};
using HeldState = std::vector<HeldVector>;

/// Whether a rank holds what no other has.
bool is_parted(const HeldState& state);

/// A vector that this rank holds all of, in the layout's order.
HeldVector whole_vector(std::string group, const ParameterLayout& layout, MutableView values,
                        Allocator& memory = plain_allocator());
inline HeldVector whole_vector(std::string group, const ParameterLayout& layout, Buffer& values) {
  return whole_vector(std::move(group), layout, values.view(), values.allocator());
}

/// Some of the rows, counted from the first one held.
strategies::HeldRows some_of(const strategies::HeldRows& rows, const Block& block, comm::Slice slice);

/// What one of several writers writes of a vector: all that it holds, or its share of each block that all hold.
std::vector<strategies::HeldRows> rows_to_write(const HeldVector& vector, int writer, int writers);

}  // namespace unisono::experiment
