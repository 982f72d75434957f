#include "layers/dense.hpp"

#include "layers/common.hpp"

namespace unisono::nn {

Dense::Dense(const LayerSettings& settings, const Shape& in)
    : Layer({{settings.units, 1, 1}}),
      spec_{.in = in.extent, .units = settings.units},
      has_bias_(settings.bias),
      initialiser_(settings.initialiser) {}

LayerTraits Dense::traits() const {
  const bool relu = spec_.activation == kernels::Activation::relu;
  return {.keeps_input = true, .keeps_output = relu, .changes_gradient = relu};
}

void Dense::declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
                    ParameterLayout&) {
  weight_ = declare_block(parameters, {.name = name + ".weight",
                                       .shape = {spec_.units, spec_.in.channels, spec_.in.height, spec_.in.width},
                                       .axes = backend.dense_weight_axes(),
                                       .role = Role::weight,
                                       .fan_in = spec_.in.size(),
                                       .fan_out = spec_.units,
                                       .initialiser = initialiser_});
  if (!has_bias_) return;
  bias_ = declare_block(parameters, {.name = name + ".bias",
                                     .shape = {spec_.units},
                                     .role = Role::bias,
                                     .fan_in = spec_.in.size(),
                                     .fan_out = spec_.units,
                                     .initialiser = bias_initialiser(initialiser_)});
}

bool Dense::absorb_relu() {
  if (spec_.activation != kernels::Activation::none) return false;
  spec_.activation = kernels::Activation::relu;
  return true;
}

void Dense::forward(const Pass& pass, const ForwardViews& views) const {
  const View b = has_bias_ ? pass.parameter(bias_) : View{};
  pass.backend.dense_forward(spec_, pass.batch, views.x, pass.parameter(weight_), b, views.y);
}

void Dense::backward(const Pass& pass, const BackwardViews& views) const {
  const MutableView db = has_bias_ ? pass.gradient(views.gradient, bias_) : MutableView{};
  pass.backend.dense_backward(spec_, pass.batch, views.x, pass.parameter(weight_), views.y, views.dy, views.dx,
                              pass.gradient(views.gradient, weight_), db, views.write);
}

void describe_dense(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field(
      {.name = "units", .meaning = "number of outputs", .minimum = 1, .maximum = kLargestSize, .required = true},
      settings.units);
  visitor.field({.name = "bias", .meaning = "add the bias b"}, settings.bias);
  visitor.choice({.name = "initialiser", .meaning = "initial values of the weights"}, settings.initialiser,
                 initialiser_choices());
}

std::unique_ptr<Layer> make_dense(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  return std::make_unique<Dense>(settings, in);
}

}  // namespace unisono::nn
