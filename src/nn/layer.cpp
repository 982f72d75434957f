#include "unisono/nn/layer.hpp"

#include <fmt/format.h>

namespace unisono::nn {

std::string text_of(const Shape& shape) {
  const auto& [channels, height, width] = shape.extent;
  if (shape.is_row()) return fmt::format("{}", shape.extent.size());
  return fmt::format("{}×{}×{}", channels, height, width);
}

void Layer::declare(const std::string&, const kernels::Backend&, ParameterLayout&, ParameterLayout&) {}

}  // namespace unisono::nn
