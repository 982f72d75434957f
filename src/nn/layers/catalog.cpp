#include "layers/catalog.hpp"

#include <algorithm>

namespace unisono::nn {

// Each is defined in the file of its name; activations are in activation_layer.cpp.
LayerKind dense_layer(), convolution_layer(), max_pool_layer(), average_pool_layer(), global_average_pool_layer();
LayerKind batch_norm_layer(), layer_norm_layer(), dropout_layer(), residual_block();
LayerKind relu_layer(), gelu_layer(), silu_layer(), leaky_relu_layer(), elu_layer(), softplus_layer(), tanh_layer();
LayerKind sigmoid_layer();

namespace {

LayerKind flatten_layer() {
  return {.name = "flatten", .meaning = "turns an image into a vector; costs nothing", .form = LayerForm::flatten};
}

}  // namespace

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = {
      dense_layer(),      convolution_layer(), max_pool_layer(), average_pool_layer(), global_average_pool_layer(),
      batch_norm_layer(), layer_norm_layer(),  relu_layer(),     gelu_layer(),         silu_layer(),
      leaky_relu_layer(), elu_layer(),         softplus_layer(), tanh_layer(),         sigmoid_layer(),
      dropout_layer(),    flatten_layer(),     residual_block(),
  };
  return kinds;
}

const LayerKind* find_layer_kind(std::string_view name) {
  const auto& kinds = layer_kinds();
  const auto found = std::ranges::find(kinds, name, &LayerKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace unisono::nn
