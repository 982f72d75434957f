#pragma once

#include <memory>
#include <string>

#include "layers/catalog.hpp"

namespace unisono::nn {

/// y[o, i, j] = b[o] + Σ_{c, k, l} W[o, c, k, l] x[c, i·s − p + k·d, j·s − p + l·d], with a ReLU where one follows.
/// x [B, I, H, W], W [O, I/groups, KH, KW], b [O], y [B, O, H', W'] with H' = ⌊(H + 2p − d(KH − 1) − 1)/s⌋ + 1.
/// 2·B·O·H'·W'·(I/groups)·KH·KW flops forward, twice that backward.
class Convolution final : public Layer {
 public:
  Convolution(const kernels::ConvolutionSpec& spec, bool bias, std::string initialiser);

  LayerTraits traits() const override;
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  double products() const override;
  bool absorb_relu() override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  kernels::ConvolutionSpec spec_;
  bool has_bias_;
  std::string initialiser_;
  Block weight_, bias_;
};

void describe_convolution(LayerSettings& settings, ConfigVisitor& visitor);
/// \throws ConfigError where the kernel or the groups do not fit the input
std::unique_ptr<Layer> make_convolution(const LayerSettings& settings, const Shape& in, const LayerContext& context);

}  // namespace unisono::nn
