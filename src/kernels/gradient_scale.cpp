#include <cmath>

#include "unisono/kernels/update_kernels.hpp"

namespace unisono::kernels {

float value_of(const GradientScale& scale, double squared_norm) {
  if (scale.clip_norm == 0) return scale.factor;
  const double norm = static_cast<double>(scale.factor) * std::sqrt(squared_norm);
  return norm > scale.clip_norm ? static_cast<float>(scale.clip_norm / norm) * scale.factor : scale.factor;
}

}  // namespace unisono::kernels
