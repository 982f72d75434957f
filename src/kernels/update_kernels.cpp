#include <cmath>

#include "unisono/base/errors.hpp"
#include "unisono/kernels/update_kernels.hpp"

namespace unisono::kernels {
namespace {

/// The default of kernels that a device need not have, because only optimizers of a sharded θ use them.
[[noreturn]] void refuse() {
  throw ConfigError("parameters that are divided among ranks are trained on CPUs alone; set device = \"cpu\"");
}

}  // namespace

float value_of(const GradientScale& scale, double squared_norm) {
  if (scale.clip_norm == 0) return scale.factor;
  const double norm = static_cast<double>(scale.factor) * std::sqrt(squared_norm);
  return norm > scale.clip_norm ? static_cast<float>(scale.clip_norm / norm) * scale.factor : scale.factor;
}

void VectorKernels::sum_squares(View, std::span<const UpdateRange>, bool, std::span<ExactSquares>) { refuse(); }

void UpdateKernels::sum_lamb_directions(const AdamStep&, std::span<const UpdateRange>, View, View, View, bool,
                                        std::span<ExactSquares>) {
  refuse();
}

}  // namespace unisono::kernels
