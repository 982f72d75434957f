#pragma once

#include <memory>

#include "layers/catalog.hpp"

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

template <kernels::Activation activation>
std::unique_ptr<Layer> make_activation(const LayerSettings&, const Shape& in, const LayerContext&) {
  return std::make_unique<ActivationLayer>(activation, in);
}

void describe_leaky_relu(LayerSettings& settings, ConfigVisitor& visitor);
std::unique_ptr<Layer> make_leaky_relu(const LayerSettings& settings, const Shape& in, const LayerContext& context);

void describe_elu(LayerSettings& settings, ConfigVisitor& visitor);
std::unique_ptr<Layer> make_elu(const LayerSettings& settings, const Shape& in, const LayerContext& context);

}  // namespace unisono::nn
