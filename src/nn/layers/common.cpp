#include "layers/common.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"
#include "unisono/nn/layer.hpp"

namespace unisono::nn {

Block declare_block(ParameterLayout& layout, Block block) {
  block.offset = layout.add(block);
  return block;
}

Initialiser bias_initialiser(Initialiser weight_initialiser) {
  return weight_initialiser == Initialiser::uniform ? Initialiser::uniform : Initialiser::zeros;
}

Pair pair_of(const std::vector<std::int64_t>& values, Pair otherwise, const char* setting) {
  if (values.empty()) return otherwise;
  if (values.size() > 2) {
    throw ConfigError(fmt::format("'{}' has {} numbers; use one, or [height, width]", setting, values.size()));
  }
  return {values.front(), values.back()};
}

std::string text_of(Pair pair) { return fmt::format("{}×{}", pair.height, pair.width); }

void require_image(const Shape& shape, const char* kind) {
  if (!shape.flat) return;
  throw ConfigError(
      fmt::format("{} needs an image, but a flatten above has made it a row of {} values; put it above "
                  "the flatten",
                  kind, text_of(shape)));
}

std::string text_of(const Shape& shape) {
  const auto& [channels, height, width] = shape.extent;
  if (shape.is_row()) return fmt::format("{}", shape.extent.size());
  return fmt::format("{}×{}×{}", channels, height, width);
}

void Layer::declare(const std::string&, const kernels::Backend&, ParameterLayout&, ParameterLayout&) {}

}  // namespace unisono::nn
