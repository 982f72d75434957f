#pragma once

#include <memory>

#include "layers/catalog.hpp"

namespace unisono {

/// y = activation(x), element by element.
class ActivationLayer final : public Layer {
 public:
  ActivationLayer(Activation activation, const Shape& in) : Layer(in), activation_(activation) {}

  Activation activation() const { return activation_; }
  LayerTraits traits() const override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  Activation activation_;
};

template <Activation activation>
std::unique_ptr<Layer> make_activation(const LayerSettings&, const Shape& in, const LayerContext&) {
  return std::make_unique<ActivationLayer>(activation, in);
}

}  // namespace unisono
