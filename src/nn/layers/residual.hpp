#pragma once

#include "unisono/nn/layer.hpp"

namespace unisono::nn {

/// Where a residual block's branch and shortcut meet: y = x + residual. The gradient with respect to both is dy.
/// He et al., CVPR 2016.
class Addition final : public Layer {
 public:
  explicit Addition(const Shape& shape) : Layer(shape) {}

  LayerTraits traits() const override { return {.in_place = true, .shares_gradient = true}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass&, const BackwardViews&) const override {}
};

}  // namespace unisono::nn
