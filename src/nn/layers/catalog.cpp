#include "layers/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"

namespace unisono::nn {

// dense.cpp: dense; convolution.cpp: convolution; pool.cpp: all pooling; norms.cpp: batch and layer normalisation;
// elementwise.cpp: activations, dropout, residual and repeated layers; sequences.cpp: layers of language models.
// flatten is below.
LayerKind dense_layer(), convolution_layer(), max_pool_layer(), average_pool_layer(), global_average_pool_layer();
LayerKind batch_norm_layer(), layer_norm_layer(), dropout_layer(), residual_block();
LayerKind relu_layer(), gelu_layer(), silu_layer(), leaky_relu_layer(), elu_layer(), softplus_layer(), tanh_layer();
LayerKind sigmoid_layer(), gelu_tanh_layer(), rms_norm_layer(), repeated_layers(), channel_gate(), scale_layer();
LayerKind embedding_layer(), attention_layer(), swiglu_layer(), unembedding_layer(), sequence_pool_layer();

namespace {

LayerKind flatten_layer() {
  return {.name = "flatten", .meaning = "turns an image into a vector; costs nothing", .form = LayerForm::flatten};
}

}  // namespace

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = {
      dense_layer(),         convolution_layer(), max_pool_layer(), average_pool_layer(), global_average_pool_layer(),
      batch_norm_layer(),    layer_norm_layer(),  relu_layer(),     gelu_layer(),         gelu_tanh_layer(),
      silu_layer(),          leaky_relu_layer(),  elu_layer(),      softplus_layer(),     tanh_layer(),
      sigmoid_layer(),       dropout_layer(),     flatten_layer(),  residual_block(),     repeated_layers(),
      embedding_layer(),     attention_layer(),   rms_norm_layer(), swiglu_layer(),       unembedding_layer(),
      sequence_pool_layer(), channel_gate(),      scale_layer(),
  };
  return kinds;
}

const LayerKind* find_layer_kind(std::string_view name) {
  const auto& kinds = layer_kinds();
  const auto found = std::ranges::find(kinds, name, &LayerKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

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
  if (shape.vocabulary > 0) return fmt::format("{} tokens", shape.rows);
  const std::string rows = shape.rows > 1 ? fmt::format("{} × ", shape.rows) : "";
  if (shape.is_row()) return fmt::format("{}{}", rows, shape.extent.size());
  return fmt::format("{}{}×{}×{}", rows, channels, height, width);
}

void Layer::declare(const std::string&, const kernels::Backend&, ParameterLayout&, ParameterLayout&) {}

}  // namespace unisono::nn
