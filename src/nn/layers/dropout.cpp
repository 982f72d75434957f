#include "layers/dropout.hpp"

namespace unisono::nn {

void Dropout::mask(const Pass& pass, View from, MutableView to) const {
  const kernels::DropoutKey key{
      .seed = pass.seed, .epoch = static_cast<std::uint32_t>(pass.epoch), .layer = number_, .rate = rate_};
  pass.backend.dropout(key, out().extent, pass.examples, from, to);
}

void Dropout::forward(const Pass& pass, const ForwardViews& views) const {
  if (pass.training) {
    mask(pass, views.x, views.y);
  } else if (views.x.data() != views.y.data()) {
    pass.backend.activation_forward(kernels::Activation::none, out().extent, pass.batch, views.x, views.y);
  }
}

void Dropout::backward(const Pass& pass, const BackwardViews& views) const { mask(pass, views.dy, views.dx); }

void describe_dropout(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "rate", .meaning = "probability that a value is zeroed", .minimum = 0, .maximum = 0.999999},
                settings.rate);
}

std::unique_ptr<Layer> make_dropout(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  return std::make_unique<Dropout>(settings.rate, context.number, in);
}

}  // namespace unisono::nn
