#include "layers/elementwise.hpp"

#include <memory>

#include "layers/catalog.hpp"

namespace unisono::nn {

// Most derivatives are computed from y, so that the layer can work in place; those of GELUs and SiLU from x.
LayerTraits ActivationLayer::traits() const {
  const bool of_input = activation_.reads_input();
  return {.keeps_input = of_input, .keeps_output = !of_input, .in_place = !of_input, .gradient_in_place = true};
}

void ActivationLayer::forward(const Pass& pass, const ForwardViews& views) const {
  pass.backend.activation_forward(activation_, out().extent, rows(pass), views.x, views.y);
}

void ActivationLayer::backward(const Pass& pass, const BackwardViews& views) const {
  pass.backend.activation_backward(activation_, out().extent, rows(pass), views.x, views.y, views.dy, views.dx);
}

namespace {

struct LeakyReluSettings {
  double slope = 0.01;
};

struct EluSettings {
  double alpha = 1;
};

void describe_leaky_relu(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "slope", .meaning = "what negative values are multiplied by", .range = at_least(0)},
                settings.own.of<LeakyReluSettings>().slope);
}

void describe_elu(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "alpha", .meaning = "negative values go down to −alpha", .range = at_least(0)},
                settings.own.of<EluSettings>().alpha);
}

template <kernels::Activation activation>
std::unique_ptr<Layer> make_activation(const LayerSettings&, const Shape& in, const LayerContext&) {
  return std::make_unique<ActivationLayer>(activation, in);
}

std::unique_ptr<Layer> make_leaky_relu(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  const auto slope = static_cast<float>(settings.own.of<LeakyReluSettings>().slope);
  return std::make_unique<ActivationLayer>(kernels::ActivationSpec(kernels::Activation::leaky_relu, slope), in);
}

std::unique_ptr<Layer> make_elu(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  const auto alpha = static_cast<float>(settings.own.of<EluSettings>().alpha);
  return std::make_unique<ActivationLayer>(kernels::ActivationSpec(kernels::Activation::elu, alpha), in);
}

}  // namespace

LayerKind relu_layer() {
  return {.name = "relu",
          .meaning = "max(x, 0)",
          .make = make_activation<kernels::Activation::relu>,
          .of_sequences = true,
          .divided = Divided::elements};
}

LayerKind gelu_layer() {
  return {.name = "gelu",
          .meaning = "x Φ(x), Φ the standard normal distribution (Hendrycks & Gimpel 2016)",
          .make = make_activation<kernels::Activation::gelu>,
          .of_sequences = true,
          .divided = Divided::elements};
}

LayerKind gelu_tanh_layer() {
  return {.name = "gelu_tanh",
          .meaning =
              "½ x (1 + tanh(√(2/π) (x + 0.044715 x³))), the approximation of gelu that GPT-2 has (Hendrycks & "
              "Gimpel 2016)",
          .make = make_activation<kernels::Activation::gelu_tanh>,
          .of_sequences = true,
          .divided = Divided::elements};
}

LayerKind silu_layer() {
  return {.name = "silu",
          .meaning = "x / (1 + exp(−x)), also called swish (Elfwing et al. 2018)",
          .make = make_activation<kernels::Activation::silu>,
          .of_sequences = true,
          .divided = Divided::elements};
}

LayerKind softplus_layer() {
  return {.name = "softplus",
          .meaning = "ln(1 + exp(x))",
          .make = make_activation<kernels::Activation::softplus>,
          .of_sequences = true,
          .divided = Divided::elements};
}

LayerKind tanh_layer() {
  return {.name = "tanh",
          .meaning = "hyperbolic tangent",
          .make = make_activation<kernels::Activation::tanh>,
          .of_sequences = true,
          .divided = Divided::elements};
}

LayerKind sigmoid_layer() {
  return {.name = "sigmoid",
          .meaning = "1 / (1 + exp(−x))",
          .make = make_activation<kernels::Activation::sigmoid>,
          .of_sequences = true,
          .divided = Divided::elements};
}

LayerKind leaky_relu_layer() {
  return {.name = "leaky_relu",
          .meaning = "x where x > 0, else slope · x (Maas et al. 2013)",
          .describe = describe_leaky_relu,
          .make = make_leaky_relu,
          .of_sequences = true,
          .divided = Divided::elements};
}

LayerKind elu_layer() {
  return {.name = "elu",
          .meaning = "x where x > 0, else alpha · (exp(x) − 1) (Clevert et al. 2016)",
          .describe = describe_elu,
          .make = make_elu,
          .of_sequences = true,
          .divided = Divided::elements};
}

void Addition::forward(const Pass& pass, const ForwardViews& views) const {
  if (views.x.data() != views.y.data()) {
    pass.backend.activation_forward(kernels::Activation::none, out().extent, rows(pass), views.x, views.y);
  }
  pass.backend.add(out().extent, rows(pass), views.residual, views.y);
}

void ChannelGate::forward(const Pass& pass, const ForwardViews& views) const {
  pass.backend.channel_gate_forward(out().extent, pass.batch, views.x, views.residual, views.y);
}

void ChannelGate::backward(const Pass& pass, const BackwardViews& views) const {
  pass.backend.channel_gate_backward(out().extent, pass.batch, views.x, views.residual, views.dy, views.dx,
                                     views.dresidual);
}

namespace {

void describe_inner(const Field& field, std::vector<LayerSettings>& layers, ConfigVisitor& visitor,
                    bool of_gate = false) {
  visitor.list(
      field, layers.size(), [&](std::size_t size) { layers.resize(size); },
      [&](std::size_t i, ConfigVisitor& inner) {
        layers[i].inside_residual = true;
        layers[i].inside_gate = of_gate;
        layers[i].describe(inner);
      });
}

void describe_channel_gate(LayerSettings& settings, ConfigVisitor& visitor) {
  describe_inner({.name = "layers",
                  .meaning = "layers that compute a factor for each channel from the inputs, for example "
                             "global_average_pool, dense, relu, dense, sigmoid",
                  .required = true},
                 settings.own.of<ChannelGateSettings>().layers, visitor, /*of_gate=*/true);
}

void describe_repeat(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<RepeatSettings>();
  visitor.field({.name = "times",
                 .meaning = "how often the layers are repeated",
                 .range = at_least(1).at_most(10000),
                 .required = true},
                own.times);
  visitor.list(
      {.name = "layers",
       .meaning = "the layers; each repetition has parameters of its own, named \"repeat1.1.…\", \"repeat1.2.…\"",
       .required = true},
      own.layers.size(), [&](std::size_t size) { own.layers.resize(size); },
      [&](std::size_t i, ConfigVisitor& inner) {
        own.layers[i].inside_repeat = true;
        own.layers[i].describe(inner);
      });
}

void describe_residual(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<ResidualSettings>();
  describe_inner(
      {.name = "layers", .meaning = "layers of the branch, whose output is added to the input", .required = true},
      own.layers, visitor);
  describe_inner(
      {.name = "shortcut",
       .meaning = "layers that replace the identity, for branches that change the shape; if empty, the identity"},
      own.shortcut, visitor);
}

}  // namespace

LayerKind residual_block() {
  return {.name = "residual",
          .meaning = "layers whose outputs are added to their inputs (He et al. 2016)",
          .describe = describe_residual,
          .form = LayerForm::residual,
          .of_sequences = true};
}

LayerKind channel_gate() {
  return {.name = "channel_gate",
          .meaning =
              "multiplies each channel of an image by a factor that layers compute from the inputs: "
              "squeeze-and-excitation (Hu et al. 2018)",
          .describe = describe_channel_gate,
          .form = LayerForm::gate};
}

LayerKind repeated_layers() {
  return {.name = "repeat",
          .meaning = "layers one after the other, several times",
          .describe = describe_repeat,
          .form = LayerForm::repeat};
}

namespace {

struct DropoutSettings {
  double rate = 0.5;
};

/// While training y = mask ⊙ x / (1 − rate), else y = x. The mask depends only on layer, seed, epoch, example and
/// element, so it is the same however the batch is cut. Srivastava et al., JMLR 2014.
class Dropout final : public Layer, public Decodable {
 public:
  /// \param first element of the layer's, where others are on other ranks
  Dropout(double rate, std::uint32_t number, Index first, const Shape& in)
      : Layer(in), rate_(static_cast<float>(rate)), number_(number), first_(first) {}

  LayerTraits traits() const override { return {.in_place = true, .gradient_in_place = true, .random = rate_ > 0}; }
  Operation operation() const override { return DropoutOperation{static_cast<double>(rate_)}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
  void decode(const DecodeStep&, const DecodeViews& views) const override {
    if (views.x.data() != views.y.data()) std::ranges::copy(views.x, views.y.begin());
  }

 private:
  void mask(const Pass& pass, View from, MutableView to) const;

  float rate_;
  std::uint32_t number_;
  Index first_;
};

void Dropout::mask(const Pass& pass, View from, MutableView to) const {
  const kernels::DropoutKey key{.seed = pass.seed,
                                .epoch = static_cast<std::uint32_t>(pass.epoch),
                                .layer = number_,
                                .rate = rate_,
                                .first = first_};
  pass.backend.dropout(key, out().extent, out().rows == 1 ? pass.examples : pass.row_numbers, from, to);
}

void Dropout::forward(const Pass& pass, const ForwardViews& views) const {
  if (pass.training) {
    mask(pass, views.x, views.y);
  } else if (views.x.data() != views.y.data()) {
    pass.backend.activation_forward(kernels::Activation::none, out().extent, rows(pass), views.x, views.y);
  }
}

void Dropout::backward(const Pass& pass, const BackwardViews& views) const { mask(pass, views.dy, views.dx); }

void describe_dropout(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field(
      {.name = "rate", .meaning = "probability that a value is zeroed", .range = at_least(0).at_most(0.999999)},
      settings.own.of<DropoutSettings>().rate);
}

std::unique_ptr<Layer> make_dropout(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  return std::make_unique<Dropout>(settings.own.of<DropoutSettings>().rate, context.number, context.leaf.outputs.first,
                                   in);
}

}  // namespace

LayerKind dropout_layer() {
  return {.name = "dropout",
          .meaning = "during training, sets random values to zero and scales up the others (Srivastava et al. 2014)",
          .describe = describe_dropout,
          .make = make_dropout,
          .of_sequences = true,
          .divided = Divided::elements};
}

}  // namespace unisono::nn
