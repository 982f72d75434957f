#include <memory>
#include <string>

#include "layers/catalog.hpp"
#include "layers/common.hpp"

namespace unisono::nn {
namespace {

struct LayerNormSettings {
  double epsilon = 1e-5;
};

/// y = γ ⊙ (x − mean) / √(variance + ε) + β, mean and variance of each example over all its values; γ and β have one
/// value for each element. Ba, Kiros and Hinton, 2016.
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

LayerNorm::LayerNorm(double epsilon, const Shape& in) : Layer(in), spec_{.extent = in.extent, .epsilon = epsilon} {}

void LayerNorm::declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
                        ParameterLayout&) {
  const kernels::Extent& of = spec_.extent;
  const auto block = [&](const char* suffix, Initialiser initialiser) {
    return declare_block(parameters, {.name = name + suffix,
                                      .shape = {of.channels, of.height, of.width},
                                      .axes = backend.feature_axes(),
                                      .role = Role::norm,
                                      .initialiser = initialiser});
  };
  gamma_ = block(".gamma", Initialiser::ones);
  beta_ = block(".beta", Initialiser::zeros);
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
                settings.own.of<LayerNormSettings>().epsilon);
}

std::unique_ptr<Layer> make_layer_norm(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  return std::make_unique<LayerNorm>(settings.own.of<LayerNormSettings>().epsilon, in);
}

}  // namespace

LayerKind layer_norm_layer() {
  return {.name = "layer_norm",
          .meaning = "normalises each example over its own values (Ba et al. 2016)",
          .describe = describe_layer_norm,
          .make = make_layer_norm};
}

}  // namespace unisono::nn
