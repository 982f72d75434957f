#include "layers/activation_layer.hpp"

namespace unisono::nn {

// Most derivatives are functions of y, so that the layer can work in place; those of GELU and SiLU are ones of x.
LayerTraits ActivationLayer::traits() const {
  const bool of_input = activation_.reads_input();
  return {.keeps_input = of_input, .keeps_output = !of_input, .in_place = !of_input, .gradient_in_place = true};
}

void ActivationLayer::forward(const Pass& pass, const ForwardViews& views) const {
  pass.backend.activation_forward(activation_, out().extent, pass.batch, views.x, views.y);
}

void ActivationLayer::backward(const Pass& pass, const BackwardViews& views) const {
  pass.backend.activation_backward(activation_, out().extent, pass.batch, views.x, views.y, views.dy, views.dx);
}

void describe_leaky_relu(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "slope", .meaning = "what negative values are multiplied by", .minimum = 0}, settings.slope);
}

std::unique_ptr<Layer> make_leaky_relu(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  return std::make_unique<ActivationLayer>(
      kernels::ActivationSpec(kernels::Activation::leaky_relu, static_cast<float>(settings.slope)), in);
}

void describe_elu(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "alpha", .meaning = "negative values go down to −alpha", .minimum = 0}, settings.alpha);
}

std::unique_ptr<Layer> make_elu(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  return std::make_unique<ActivationLayer>(
      kernels::ActivationSpec(kernels::Activation::elu, static_cast<float>(settings.alpha)), in);
}

}  // namespace unisono::nn
