#include "cuda/ranges.hpp"

#include <algorithm>

namespace unisono::kernels::cuda {

RangeChunks::RangeChunks(std::span<const UpdateRange> ranges) {
  constexpr Index kLeast = 1 << 13, kMostChunks = 2048;
  Index floats = 0;
  for (const UpdateRange& range : ranges) floats += range.last - range.first;
  const Index largest = std::max(kLeast, round_up_to_line(floats / kMostChunks));
  for (const UpdateRange& range : ranges) {
    const auto number = static_cast<std::int32_t>(begins.size());
    begins.push_back(std::ssize(chunks));
    Index first = range.first;
    do {
      const Index last = std::min(first + largest, range.last);
      chunks.push_back({.first = first, .last = last, .range = number, .decays = range.decays ? 1 : 0});
      first = last;
    } while (first < range.last);
  }
  begins.push_back(std::ssize(chunks));
}

}  // namespace unisono::kernels::cuda
