#pragma once

#include "cuda/device_code.hpp"

namespace unisono::kernels::cuda {

/// Sums of losses: of a row, a warp, or a block.
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

}  // namespace unisono::kernels::cuda
