#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/kernels/update_kernels.hpp"

namespace unisono::kernels::cuda {

/// A piece of one range, for one block of threads.
struct RangeChunk {
  std::int64_t first = 0, last = 0;
  std::int32_t range = 0;   ///< its number
  std::int32_t decays = 0;  ///< 1 where the range does
  bool operator==(const RangeChunk&) const = default;
};

/// Ranges, cut into chunks of equal size, except that the last chunk of a range is smaller. The size is at least 8192
/// floats, and large enough for about 2048 chunks in all. How a range is cut depends only on the ranges' sizes. A range
/// of no floats has one empty chunk.
struct RangeChunks {
  std::vector<RangeChunk> chunks;
  std::vector<std::int64_t> begins;  ///< [ranges + 1] where each range's chunks begin
  explicit RangeChunks(std::span<const UpdateRange> ranges);
};

}  // namespace unisono::kernels::cuda
