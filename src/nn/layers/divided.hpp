#pragma once

#include "unisono/nn/layer.hpp"

// What connects the leaves of divided layers (TensorPart). Shoeybi et al., "Megatron-LM", 2019: their f and g.
namespace unisono::nn {

/// y = x, for some of the leaves that read x. Where gradients of several leaves are added up, these layers make the
/// tree of additions.
class PassOn final : public Layer {
 public:
  explicit PassOn(const Shape& shape) : Layer(shape) {}
  LayerTraits traits() const override { return {.shares_gradient = true, .passes_on = true}; }
  void forward(const Pass&, const ForwardViews&) const override {}
  void backward(const Pass&, const BackwardViews&) const override {}
};

/// Where divided layers begin: y = x, and dx is the sum of dy over the ranks. f of the paper.
class GradientSum final : public Layer {
 public:
  /// \param alone whether this rank has all leaves, so that there is nothing to add
  GradientSum(const Shape& shape, bool alone) : Layer(shape), alone_(alone) {}
  LayerTraits traits() const override {
    return {.gradient_in_place = !alone_, .shares_gradient = alone_, .passes_on = true};
  }
  void forward(const Pass&, const ForwardViews&) const override {}
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  bool alone_;
};

/// Where divided layers end: y is the sum of x over the ranks, and dx is dy. g of the paper.
class OutputSum final : public Layer {
 public:
  explicit OutputSum(const Shape& shape) : Layer(shape) {}
  LayerTraits traits() const override { return {.in_place = true, .shares_gradient = true}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass&, const BackwardViews&) const override {}
};

}  // namespace unisono::nn
