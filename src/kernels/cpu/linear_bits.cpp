#include "cpu/linear_bits.hpp"

#include "cpu/thread_team.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kMostColumns = 4096;    ///< 16 sums of each then fit the second cache
constexpr double kColumnsOfValue = 12;  ///< a mask is then about as fast as the values that it stands for
constexpr Index kBlockChunks = 8;       ///< a block's lanes are added up once: it has at least so many chunks
constexpr Index kMostBitBlocks = 32;    ///< of rows

Index mask_blocks(Index rows) { return (rows + kMaskRows - 1) / kMaskRows; }

/// Chunks begin at multiples of kLossBlock rows of the set, so that they end between masks.
Index first_chunk(const PassWork& work) { return work.examples.first / kLossBlock; }
Index last_chunk(const PassWork& work) {
  return (work.examples.first + work.examples.count + kLossBlock - 1) / kLossBlock;
}

}  // namespace

BitColumns::BitColumns(const SparseRows& rows, int threads)
    : rows_(rows), masks_(static_cast<std::size_t>(mask_blocks(rows.rows()) * rows.width)) {
  parallel_for(threads, mask_blocks(rows.rows()), [&](Index block) {
    std::uint64_t* const masks = masks_.data() + block * rows.width;
    const Index last = std::min(rows.rows(), (block + 1) * kMaskRows);
    for (Index i = block * kMaskRows; i < last; ++i) {
      const auto row = static_cast<std::size_t>(i);
      const std::uint64_t bit = std::uint64_t{1} << (i % kMaskRows);
      for (std::uint64_t k = rows.offsets[row]; k < rows.offsets[row + 1]; ++k) masks[rows.columns[k]] |= bit;
    }
  });
}

bool BitColumns::suit(Index width, double row_values) {
  return width <= kMostColumns && static_cast<double>(width) <= kColumnsOfValue * row_values;
}

bool BitColumns::suit(const SparseRows& rows) {
  if (!rows.values.empty() || rows.rows() == 0) return false;
  return suit(rows.width, static_cast<double>(rows.columns.size()) / static_cast<double>(rows.rows()));
}

Index BitColumns::bytes(Index rows, Index width) {
  return mask_blocks(rows) * width * static_cast<Index>(sizeof(std::uint64_t));
}

bool BitColumns::made_from(const SparseRows& rows) const {
  return rows.columns.data() == rows_.columns.data() && rows.columns.size() == rows_.columns.size() &&
         rows.offsets.data() == rows_.offsets.data() && rows.width == rows_.width;
}

Index bit_blocks(const PassWork& work) {
  return std::clamp<Index>((last_chunk(work) - first_chunk(work)) / kBlockChunks, 1, kMostBitBlocks);
}

Index lane_floats(Index features) { return 16 * round_up_to_line(features); }

std::vector<PassSums> pass_by_bits(const LinearChunks& chunks, const PassWork& work, int threads,
                                   const BitMemory& memory) {
  std::vector<PassSums> sums(static_cast<std::size_t>(memory.blocks));
  const Index begin = first_chunk(work), count = last_chunk(work) - begin, floats = lane_floats(work.examples.features);
  parallel_ranges(threads, memory.blocks, [&](Index first_block, Index last_block, int thread) {
    float* const margins = memory.margins + thread * 2 * kLossBlock;
    float* const lanes = memory.lanes + thread * floats;
    Chunk chunk{margins, margins + kLossBlock, {}};
    for (Index b = first_block; b < last_block; ++b) {
      std::fill_n(lanes, floats, 0.0F);
      PassSums& added = sums[static_cast<std::size_t>(b)];
      for (Index c = begin + count * b / memory.blocks; c < begin + count * (b + 1) / memory.blocks; ++c) {
        const Index first = std::max<Index>(0, c * kLossBlock - work.examples.first);
        const Index last = std::min(work.examples.count, (c + 1) * kLossBlock - work.examples.first);
        chunks.add_bits(work, first, last, chunks.slopes(work, first, last, chunk, added), lanes);
      }
      chunks.settle(added);
      chunks.add_up_lanes(lanes, work.examples.features, memory.vectors + b * memory.stride);
    }
  });
  return sums;
}

}  // namespace unisono::kernels::cpu
