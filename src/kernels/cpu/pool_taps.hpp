#pragma once

#include <vector>

#include "cpu/loops.hpp"
#include "unisono/kernels/specs.hpp"

namespace unisono::kernels::cpu {

/// Where in a block of x the inputs of one output pixel lie, in row-major order, without those in the padding.
class Taps {
 public:
  /// \param pixel floats from one pixel to the next
  Taps(const PoolSpec& spec, Index pixel) : spec_(spec), pixel_(pixel) {
    offsets_.reserve(static_cast<std::size_t>(spec.height * spec.width));
  }

  const std::vector<Count>& at(Index row, Index column) {
    const PoolWindow rows = spec_.rows_of(row), columns = spec_.columns_of(column);
    offsets_.clear();
    for (Index y = rows.first; y < rows.last; ++y) {
      for (Index x = columns.first; x < columns.last; ++x) offsets_.push_back((y * spec_.in.width + x) * pixel_);
    }
    return offsets_;
  }

 private:
  const PoolSpec& spec_;
  Index pixel_;
  std::vector<Count> offsets_;
};

}  // namespace unisono::kernels::cpu
