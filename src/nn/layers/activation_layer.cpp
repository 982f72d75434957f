#include "layers/activation_layer.hpp"

namespace unisono {

// The derivatives of ReLU, tanh and sigmoid are functions of y, that of GELU is one of x.
LayerTraits ActivationLayer::traits() const {
  const bool of_input = activation_ == Activation::gelu;
  return {.keeps_input = of_input, .keeps_output = !of_input, .in_place = !of_input, .gradient_in_place = true};
}

void ActivationLayer::forward(const Pass& pass, const ForwardViews& views) const {
  pass.backend.activation_forward(activation_, out().extent, pass.batch, views.x, views.y);
}

void ActivationLayer::backward(const Pass& pass, const BackwardViews& views) const {
  pass.backend.activation_backward(activation_, out().extent, pass.batch, views.x, views.y, views.dy, views.dx);
}

}  // namespace unisono
