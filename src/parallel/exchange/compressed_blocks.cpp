#include "unisono/parallel/compressed_blocks.hpp"

#include <algorithm>

namespace unisono::parallel {

std::vector<bool> blocks_to_compress(const ParameterLayout& layout, const std::vector<std::string>& exact) {
  std::vector<bool> compressed;
  for (const Block& block : layout.blocks()) compressed.push_back(block.role == Role::weight);
  for (const std::string& pattern : exact) {
    for (const std::size_t i : layout.matching(pattern)) compressed[i] = false;
  }
  return compressed;
}

CompressedBlocks divide_blocks(const ParameterLayout& layout, const std::vector<bool>& compressed) {
  CompressedBlocks result;
  Index end = 0;  // of what has a place already
  const auto leave_out = [&](Index last) {
    if (end < last) result.unsent.push_back({end, last});
  };
  for (std::size_t i = 0; i < compressed.size(); ++i) {
    const Block& block = layout.blocks()[i];
    if (block.frozen) continue;
    leave_out(block.offset);
    end = block.offset + block.stored_size();
    (compressed[i] ? result.compressed : result.exact).push_back({block.offset, end});
  }
  leave_out(layout.size());
  return result;
}

Index size_of(const std::vector<FloatRange>& ranges) {
  Index size = 0;
  for (const FloatRange& range : ranges) size += range.last - range.first;
  return size;
}

FloatRange common_part(const FloatRange& range, const FloatRange& other) {
  const Index first = std::max(range.first, other.first);
  return {first, std::max(first, std::min(range.last, other.last))};
}

void pack(View vector, const std::vector<FloatRange>& ranges, MutableView packed) {
  auto* to = packed.data();
  for (const FloatRange& range : ranges) to = std::ranges::copy(part(vector, range), to).out;
}

void unpack(View packed, const std::vector<FloatRange>& ranges, MutableView vector) {
  const auto* from = packed.data();
  for (const FloatRange& range : ranges) {
    std::copy_n(from, range.last - range.first, part(vector, range).begin());
    from += range.last - range.first;
  }
}

}  // namespace unisono::parallel
