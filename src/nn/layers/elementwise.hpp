#pragma once

#include <algorithm>
#include <functional>

#include "unisono/nn/decodable.hpp"
#include "unisono/nn/layer.hpp"

namespace unisono::nn {

/// y = activation(x), element by element.
class ActivationLayer final : public Layer, public Decodable {
 public:
  ActivationLayer(const kernels::ActivationSpec& activation, const Shape& in) : Layer(in), activation_(activation) {}

  kernels::Activation activation() const { return activation_.kind; }
  LayerTraits traits() const override;
  Operation operation() const override { return ActivationOperation{activation_}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
  void decode(const DecodeStep& step, const DecodeViews& views) const override {
    step.kernels.decode_activation(activation_, out().extent.size(), step.size(), views.x, views.y);
  }

 private:
  kernels::ActivationSpec activation_;
};

/// Where a residual block's branch and shortcut meet: y = x + residual. The gradient with respect to both is dy.
/// He et al., CVPR 2016.
class Addition final : public Layer, public Decodable {
 public:
  explicit Addition(const Shape& shape) : Layer(shape) {}

  LayerTraits traits() const override { return {.in_place = true, .shares_gradient = true}; }
  Operation operation() const override { return AdditionOperation{}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass&, const BackwardViews&) const override {}
  void decode(const DecodeStep&, const DecodeViews& views) const override {
    std::ranges::transform(views.x, views.residual, views.y.begin(), std::plus<>());
  }
};

/// y[c, i, j] = x[c, i, j] · residual[c]: the channels of an image, each times a factor that other layers have
/// computed.
class ChannelGate final : public Layer {
 public:
  explicit ChannelGate(const Shape& shape) : Layer(shape) {}

  LayerTraits traits() const override { return {.keeps_input = true, .multiplies = true}; }
  Operation operation() const override { return ChannelGateOperation{}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
};

}  // namespace unisono::nn
