#pragma once

#include <memory>
#include <string>

#include "layers/catalog.hpp"

namespace unisono::nn {

/// y = γ ⊙ (x − mean) / √(variance + ε) + β, mean and variance of each example over all its values; γ and β have one
/// value an element. Ba, Kiros and Hinton, 2016.
class LayerNorm final : public Layer {
 public:
  LayerNorm(double epsilon, const Shape& in);

  LayerTraits traits() const override { return {.keeps_input = true}; }
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  kernels::NormSpec spec_;
  Block gamma_, beta_;
};

void describe_layer_norm(LayerSettings& settings, ConfigVisitor& visitor);
std::unique_ptr<Layer> make_layer_norm(const LayerSettings& settings, const Shape& in, const LayerContext& context);

}  // namespace unisono::nn
