#pragma once

// What the kernels of losses share: one warp for each example, sums in double; the sums of the blocks are added up in
// the order of the blocks.
#include "cuda/device_code.hpp"

namespace unisono::kernels::cuda {

constexpr unsigned kWarpsOfBlock = kBlock / kWarp;

/// The sums of a warp, and then of a block.
struct Found {
  double loss, squared, absolute, target, target_squared, correct, correct_top5;
};

__device__ inline Found operator+(Found a, const Found& b) {
  return {a.loss + b.loss,
          a.squared + b.squared,
          a.absolute + b.absolute,
          a.target + b.target,
          a.target_squared + b.target_squared,
          a.correct + b.correct,
          a.correct_top5 + b.correct_top5};
}

/// found[block] = Σ of `own` over the first lanes of the block's warps.
__device__ inline void sum_of_block(const Found& own, Found* found) {
  __shared__ Found warps[kWarpsOfBlock];
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  Found sum = warps[0];
  for (unsigned warp = 1; warp < kWarpsOfBlock; ++warp) sum = sum + warps[warp];
  found[blockIdx.x] = sum;
}

/// How often a logit is chosen before the label's: it is larger, or equal and of a smaller class, or no number.
template <typename T>
__device__ int chosen_before(std::int64_t classes, const T* logits, std::int64_t label) {
  const float own = to_float(logits[label]);
  int before = 0;
  for (std::int64_t k = threadIdx.x % kWarp; k < classes; k += kWarp) {
    const float logit = to_float(logits[k]);
    before += logit < own || (logit == own && k >= label) ? 0 : 1;
  }
  return warp_sum(before);
}

/// The weight of an example; 1 where there are no weights.
__device__ inline float weight_of(const float* const* weights, std::int64_t example) {
  return weights == nullptr ? 1.0F : (*weights)[example];
}

inline Grid grid_of_warps(Index batch) {
  constexpr Index kMostBlocks = 512;
  return {.blocks = static_cast<unsigned>(std::min<Index>(kMostBlocks, blocks_for(batch, kWarpsOfBlock))),
          .threads = kBlock};
}

}  // namespace unisono::kernels::cuda
