#pragma once

#include <memory>
#include <string>

#include "layers/catalog.hpp"

namespace unisono::nn {

/// y = x Wᵀ + b, with a ReLU where one follows.
/// x [B, in], W [units, in], b [units], y [B, units]; 2·B·in·units flops forward, twice that backward.
class Dense final : public Layer {
 public:
  Dense(const LayerSettings& settings, const Shape& in);

  LayerTraits traits() const override;
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  double products() const override { return static_cast<double>(spec_.in.size() * spec_.units); }
  bool absorb_relu() override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  kernels::DenseSpec spec_;
  bool has_bias_;
  std::string initialiser_;
  Block weight_, bias_;
};

void describe_dense(LayerSettings& settings, ConfigVisitor& visitor);
std::unique_ptr<Layer> make_dense(const LayerSettings& settings, const Shape& in, const LayerContext& context);

}  // namespace unisono::nn
