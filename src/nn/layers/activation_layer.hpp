#pragma once

#include "unisono/nn/layer.hpp"

namespace unisono::nn {

/// y = activation(x), element by element.
class ActivationLayer final : public Layer {
 public:
  ActivationLayer(const kernels::ActivationSpec& activation, const Shape& in) : Layer(in), activation_(activation) {}

  kernels::Activation activation() const { return activation_.kind; }
  LayerTraits traits() const override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  kernels::ActivationSpec activation_;
};

}  // namespace unisono::nn
