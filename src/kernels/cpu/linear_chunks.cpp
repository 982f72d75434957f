#include "cpu/linear_chunks.hpp"

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

}  // namespace unisono::kernels::cpu
