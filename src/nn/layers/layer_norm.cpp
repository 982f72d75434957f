#include "layers/layer_norm.hpp"

#include "layers/common.hpp"

namespace unisono::nn {

LayerNorm::LayerNorm(double epsilon, const Shape& in) : Layer(in), spec_{.extent = in.extent, .epsilon = epsilon} {}

void LayerNorm::declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
                        ParameterLayout&) {
  const kernels::Extent& of = spec_.extent;
  const auto block = [&](const char* suffix, const char* initialiser) {
    return declare_block(parameters, {.name = name + suffix,
                                      .shape = {of.channels, of.height, of.width},
                                      .axes = backend.feature_axes(),
                                      .role = Role::norm,
                                      .initialiser = initialiser});
  };
  gamma_ = block(".gamma", "ones");
  beta_ = block(".beta", "zeros");
}

void LayerNorm::forward(const Pass& pass, const ForwardViews& views) const {
  pass.backend.layer_norm_forward(spec_, pass.batch, views.x, pass.parameter(gamma_), pass.parameter(beta_), views.y);
}

void LayerNorm::backward(const Pass& pass, const BackwardViews& views) const {
  pass.backend.layer_norm_backward(spec_, pass.batch, views.x, pass.parameter(gamma_), views.dy, views.dx,
                                   pass.gradient(views.gradient, gamma_), pass.gradient(views.gradient, beta_),
                                   views.write);
}

void describe_layer_norm(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "epsilon", .meaning = "small number that is added to the variance", .minimum = 1e-30},
                settings.epsilon);
}

std::unique_ptr<Layer> make_layer_norm(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  return std::make_unique<LayerNorm>(settings.epsilon, in);
}

}  // namespace unisono::nn
