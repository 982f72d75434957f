#include <memory>

#include "layers/catalog.hpp"

namespace unisono::nn {
namespace {

struct DropoutSettings {
  double rate = 0.5;
};

/// While training y = mask ⊙ x / (1 − rate), else y = x. The mask depends only on layer, seed, epoch, example and
/// element, so it is the same however the batch is cut. Srivastava et al., JMLR 2014.
class Dropout final : public Layer {
 public:
  Dropout(double rate, std::uint32_t number, const Shape& in)
      : Layer(in), rate_(static_cast<float>(rate)), number_(number) {}

  LayerTraits traits() const override { return {.in_place = true, .gradient_in_place = true, .random = rate_ > 0}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  void mask(const Pass& pass, View from, MutableView to) const;

  float rate_;
  std::uint32_t number_;
};

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
                settings.own.of<DropoutSettings>().rate);
}

std::unique_ptr<Layer> make_dropout(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  return std::make_unique<Dropout>(settings.own.of<DropoutSettings>().rate, context.number, in);
}

}  // namespace

LayerKind dropout_layer() {
  return {.name = "dropout",
          .meaning = "during training, sets random values to zero and scales up the others (Srivastava et al. 2014)",
          .describe = describe_dropout,
          .make = make_dropout};
}

}  // namespace unisono::nn
