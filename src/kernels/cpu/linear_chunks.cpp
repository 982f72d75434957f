#include "cpu/linear_chunks.hpp"

#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace {

SparseExamples sparse(const PassWork& work, Index first, Index last) {
  const SparseRows& rows = *work.examples.rows;
  return {.offsets = rows.offsets.data(),
          .columns = rows.columns.data(),
          .values = rows.values.empty() ? nullptr : rows.values.data(),
          .width = rows.width,
          .first = work.examples.first + first,
          .last = work.examples.first + last};
}

DenseExamples contiguous(const PassWork& work, Index first, Index last) {
  const Index features = work.examples.features;
  return {.values = work.examples.values + first * features, .count = last - first, .features = features};
}

BitExamples bits(const PassWork& work, Index first, Index last) {
  const Index begin = work.examples.first;
  return {.masks = work.masks, .width = work.examples.features, .first = begin + first, .last = begin + last};
}

BlockTargets targets(const PassWork& work, Index first, Index last, Chunk& chunk) {
  const LinearExamples& examples = work.examples;
  BlockTargets block{.targets = examples.targets == nullptr ? chunk.targets.data() : examples.targets + first,
                     .weights = examples.weights == nullptr ? nullptr : examples.weights + first,
                     .scale = work.scale,
                     .count = last - first};
  if (examples.targets == nullptr) std::copy(examples.labels + first, examples.labels + last, chunk.targets.begin());
  return block;
}

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

const float* LinearChunks::slopes(const PassWork& work, Index first, Index last, Chunk& chunk, PassSums& sums) const {
  return work.loss.classes > 0 ? softmax_slopes(work, first, last, chunk, sums)
                               : margin_slopes(work, first, last, chunk, sums);
}

/// z = Xw + b; u likewise of v, where there is one.
void LinearChunks::find_margins(const PassWork& work, Index first, Index last, Chunk& chunk) const {
  const auto vector = [](LinearVector<const float> of) {
    return MarginVector{of.weights, of.bias == nullptr ? 0.0F : *of.bias};
  };
  const MarginVector w = vector(work.theta), v = vector(work.v);
  if (work.masks != nullptr) {
    loops_.linear.bit_margins(bits(work, first, last), w, chunk.z);
    if (work.product()) loops_.linear.bit_margins(bits(work, first, last), v, chunk.u);
  } else if (work.pairs != nullptr) {
    loops_.linear.sparse_pairs(sparse(work, first, last), work.pairs, w.bias, v.bias, chunk.z, chunk.u);
  } else if (work.dense()) {
    loops_.linear.dense_margins(contiguous(work, first, last), w, v, chunk.z, chunk.u);
  } else {
    loops_.linear.sparse_margins(sparse(work, first, last), w, v, chunk.z, chunk.u);
  }
}

const float* LinearChunks::margin_slopes(const PassWork& work, Index first, Index last, Chunk& chunk,
                                         PassSums& sums) const {
  find_margins(work, first, last, chunk);
  const BlockTargets block = targets(work, first, last, chunk);
  if (work.product()) {
    loops_.linear.bends(work.loss.margin, block, chunk.z, chunk.u, sums);
    return chunk.u;
  }
  loops_.linear.derivatives(work.loss.margin, block, chunk.z, chunk.z, sums);
  return chunk.z;
}

const float* LinearChunks::curvatures(const PassWork& work, Index first, Index last, Chunk& chunk,
                                      PassSums& sums) const {
  find_margins(work, first, last, chunk);
  std::fill_n(chunk.u, last - first, 1.0F);
  loops_.linear.bends(work.loss.margin, targets(work, first, last, chunk), chunk.z, chunk.u, sums);
  return chunk.u;
}

const float* LinearChunks::softmax_slopes(const PassWork& work, Index first, Index last, Chunk& chunk,
                                          PassSums& sums) const {
  find_rows(work, work.theta, first, last, chunk.z);
  const BlockTargets block = targets(work, first, last, chunk);
  if (work.product()) {
    find_rows(work, work.v, first, last, chunk.u);
    loops_.linear.softmax_bends(work.loss.classes, work.loss.width, block, chunk.z, chunk.u);
    return chunk.u;
  }
  loops_.linear.softmax_derivatives(work.loss.classes, work.loss.width, block, chunk.z, sums);
  return chunk.z;
}

/// z = X W + b. A feature's row of weights is a column of `product`'s first matrix, an example one of its second.
void LinearChunks::find_rows(const PassWork& work, LinearVector<const float> vector, Index first, Index last,
                             float* z) const {
  const Index width = work.loss.width, features = work.examples.features;
  if (!work.dense()) {
    return loops_.linear.sparse_rows(sparse(work, first, last), {vector.weights, vector.bias, width}, z);
  }
  const float* const x = work.examples.values + first * features;
  for (Index i = 0; i < last - first && vector.bias != nullptr; ++i) std::copy_n(vector.bias, width, z + i * width);
  const ProductShape shape{.m = width,
                           .n = last - first,
                           .k = features,
                           .lda = width,
                           .ldb = features,
                           .ldc = width,
                           .accumulate = vector.bias != nullptr};
  loops_.product(shape, &vector.weights, &x, 1, nullptr, z, nullptr);
}

void LinearChunks::add(const PassWork& work, Index first, Index last, const float* d, Index low, Index high,
                       float* weights) const {
  const Index width = work.width(), features = work.examples.features;
  if (!work.dense()) {
    const SparseExamples rows = sparse(work, first, last);
    if (work.loss.classes > 0) return loops_.linear.sparse_add_rows(rows, d, width, low, high, weights);
    return loops_.linear.sparse_add(rows, d, low, high, weights);
  }
  if (work.loss.classes == 0) return loops_.linear.dense_add(contiguous(work, first, last), d, weights);
  const float* const x = work.examples.values + first * features;
  const ProductShape shape{.m = width,
                           .n = features,
                           .k = last - first,
                           .lda = width,
                           .ldb = features,
                           .ldc = width,
                           .transposed = true,
                           .accumulate = true};
  loops_.product(shape, &d, &x, 1, nullptr, weights, nullptr);
}

void LinearChunks::add_bits(const PassWork& work, Index first, Index last, const float* d, float* lanes) const {
  loops_.linear.bit_add(bits(work, first, last), d, lanes);
}

void LinearChunks::add_outer(const PassWork& work, Index first, Index last, const float* d, Index low, Index high,
                             const LinearHessian& hessian, float* scaled) const {
  const Index features = work.examples.features;
  if (!work.dense()) {
    const SparseExamples rows = sparse(work, first, last);
    loops_.linear.sparse_add_outer(rows, d, low, high, hessian.weights, hessian.stride);
    if (hessian.bias != nullptr) loops_.linear.sparse_add(rows, d, low, high, hessian.bias);
    return;
  }
  const float* const x = work.examples.values + first * features;
  for (Index i = 0; i < last - first; ++i) {
    const float* const row = x + i * features;
    for (Index j = low; j < high; ++j) scaled[i * features + j] = d[i] * row[j];
    if (hessian.bias == nullptr) continue;
    for (Index j = low; j < high; ++j) hessian.bias[j] += scaled[i * features + j];
  }
  const ProductShape shape{.m = high,
                           .n = high - low,
                           .k = last - first,
                           .lda = features,
                           .ldb = features,
                           .ldc = hessian.stride,
                           .transposed = true,
                           .accumulate = true};
  const float* const right = scaled + low;
  loops_.product(shape, &x, &right, 1, nullptr, hessian.weights + low * hessian.stride, nullptr);
}

void LinearChunks::add_bias(const PassWork& work, const float* d, Index count, float* bias) {
  if (work.loss.classes == 0 || bias == nullptr) return;
  for (Index i = 0; i < count; ++i, d += work.loss.width) {
    for (Index c = 0; c < work.loss.width; ++c) bias[c] += d[c];
  }
}

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
