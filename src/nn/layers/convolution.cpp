#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "layers/catalog.hpp"
#include "layers/dense.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/kernels/pooled_convolution_kernels.hpp"

namespace unisono::nn {
namespace {

struct ConvolutionSettings {
  std::int64_t channels = 0;
  std::vector<std::int64_t> kernel, stride, padding, dilation;  ///< one number or [height, width]
  std::int64_t groups = 1;
  bool bias = true;
  InitialWeights weights = {};
};

/// y[o, i, j] = b[o] + Σ_{c, k, l} W[o, c, k, l] x[c, i·s − p + k·d, j·s − p + l·d], with a ReLU where one follows.
/// x [B, I, H, W], W [O, I/groups, KH, KW], b [O], y [B, O, H', W'] with H' = ⌊(H + 2p − d(KH − 1) − 1)/s⌋ + 1.
/// 2·B·O·H'·W'·(I/groups)·KH·KW flops forward, twice that backward.
class Convolution final : public Layer {
 public:
  Convolution(const kernels::ConvolutionSpec& spec, bool bias, const InitialWeights& weights);

  LayerTraits traits() const override;
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  double products() const override;
  Operation operation() const override {
    return ConvolutionOperation{.spec = spec_, .weight = weight_.name, .bias = bias_.name};
  }
  bool absorb_relu() override;
  bool absorb_pool(const kernels::PoolSpec& pool, const kernels::Backend& backend) override;
  kernels::Extent kept_of_row() const override { return pool_ ? pooled_places(*pool_) : kernels::Extent{0, 0, 0}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  kernels::ConvolutionSpec spec_;
  bool has_bias_;
  InitialWeights weights_;
  Block weight_, bias_;
  std::optional<kernels::PoolSpec> pool_;  ///< the pooling behind the convolution, which the layer computes, too
};

kernels::PooledConvolutionKernels& pooled(const Pass& pass) {
  return dynamic_cast<kernels::PooledConvolutionKernels&>(pass.backend);
}

void check_groups(const kernels::ConvolutionSpec& spec) {
  if (spec.in.channels % spec.groups == 0 && spec.channels % spec.groups == 0) return;
  throw ConfigError(
      fmt::format("{} groups do not divide both {} input and {} output channels; make both multiples of the groups",
                  spec.groups, spec.in.channels, spec.channels));
}

void check_fit(const kernels::ConvolutionSpec& spec) {
  const Index height = spec.dilation_height * (spec.kernel_height - 1) + 1;
  const Index width = spec.dilation_width * (spec.kernel_width - 1) + 1;
  if (height <= spec.in.height + 2 * spec.padding_height && width <= spec.in.width + 2 * spec.padding_width) return;
  throw ConfigError(fmt::format(
      "the kernel spans {}×{} values but the input is {} with padding {}; use a smaller kernel or more padding", height,
      width, text_of(Shape{spec.in}), text_of(Pair{spec.padding_height, spec.padding_width})));
}

kernels::ConvolutionSpec spec_of(const ConvolutionSettings& settings, const kernels::Extent& in) {
  const Pair kernel = pair_of(settings.kernel, {1, 1}, "kernel");
  const Pair stride = pair_of(settings.stride, {1, 1}, "stride");
  const Pair padding = pair_of(settings.padding, {0, 0}, "padding");
  const Pair dilation = pair_of(settings.dilation, {1, 1}, "dilation");
  return {.in = in,
          .channels = settings.channels,
          .kernel_height = kernel.height,
          .kernel_width = kernel.width,
          .stride_height = stride.height,
          .stride_width = stride.width,
          .padding_height = padding.height,
          .padding_width = padding.width,
          .dilation_height = dilation.height,
          .dilation_width = dilation.width,
          .groups = settings.groups};
}

Convolution::Convolution(const kernels::ConvolutionSpec& spec, bool bias, const InitialWeights& weights)
    : Layer({spec.out()}), spec_(spec), has_bias_(bias), weights_(weights) {}

LayerTraits Convolution::traits() const {
  const bool masks = spec_.activation == kernels::Activation::relu && !pool_;
  return {.keeps_input = true, .keeps_output = masks, .changes_gradient = masks};
}

void Convolution::declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
                          ParameterLayout&) {
  const Index taps = spec_.kernel_height * spec_.kernel_width, inputs = spec_.in.channels / spec_.groups;
  weight_ = declare_block(parameters, {.name = name + ".weight",
                                       .shape = {spec_.channels, inputs, spec_.kernel_height, spec_.kernel_width},
                                       .axes = backend.convolution_weight_axes(),
                                       .role = Role::weight,
                                       .fan_in = inputs * taps,
                                       .fan_out = spec_.channels / spec_.groups * taps,
                                       .initialiser = weights_.initialiser,
                                       .deviation = weights_.deviation});
  if (!has_bias_) return;
  bias_ = declare_block(parameters, {.name = name + ".bias",
                                     .shape = {spec_.channels},
                                     .role = Role::bias,
                                     .fan_in = inputs * taps,
                                     .fan_out = spec_.channels / spec_.groups * taps,
                                     .initialiser = bias_initialiser(weights_.initialiser)});
}

double Convolution::products() const {
  return static_cast<double>(spec_.out().size() * (spec_.in.channels / spec_.groups) * spec_.kernel_height *
                             spec_.kernel_width);
}

bool Convolution::absorb_relu() {
  if (spec_.activation != kernels::Activation::none) return false;
  spec_.activation = kernels::Activation::relu;
  return true;
}

bool Convolution::absorb_pool(const kernels::PoolSpec& pool, const kernels::Backend& backend) {
  const bool can = dynamic_cast<const kernels::PooledConvolutionKernels*>(&backend) != nullptr;
  if (!can || pool_ || !kernels::takes_maxima_of_four(pool)) return false;
  pool_ = pool;
  set_out({pool.out()});
  return true;
}

void Convolution::forward(const Pass& pass, const ForwardViews& views) const {
  const View b = has_bias_ ? pass.parameter(bias_) : View{};
  if (pool_) {
    return pooled(pass).pooled_convolution_forward(spec_, *pool_, pass.batch, views.x, pass.parameter(weight_), b,
                                                   views.y, views.kept);
  }
  pass.backend.convolution_forward(spec_, pass.batch, views.x, pass.parameter(weight_), b, views.y);
}

void Convolution::backward(const Pass& pass, const BackwardViews& views) const {
  const MutableView db = has_bias_ ? pass.gradient(views.gradient, bias_) : MutableView{};
  if (pool_) {
    return pooled(pass).pooled_convolution_backward(spec_, *pool_, pass.batch, views.x, pass.parameter(weight_),
                                                    views.kept, views.dy, views.dx,
                                                    pass.gradient(views.gradient, weight_), db, views.write);
  }
  pass.backend.convolution_backward(spec_, pass.batch, views.x, pass.parameter(weight_), views.y, views.dy, views.dx,
                                    pass.gradient(views.gradient, weight_), db, views.write);
}

void describe_convolution(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<ConvolutionSettings>();
  visitor.field({.name = "channels",
                 .meaning = "number of output channels",
                 .range = at_least(1).at_most(kLargestSize),
                 .required = true},
                own.channels);
  visitor.field({.name = "kernel",
                 .meaning = "size of the kernel: one number, or [height, width]",
                 .range = at_least(1).at_most(kLargestSize),
                 .required = true},
                own.kernel);
  visitor.field({.name = "stride",
                 .meaning = "stride: one number, or [height, width]; 1 if left out",
                 .range = at_least(1).at_most(kLargestSize)},
                own.stride);
  visitor.field({.name = "padding",
                 .meaning = "zeros that are added on each side: one number, or [height, width]; 0 if left out",
                 .range = at_least(0).at_most(kLargestSize)},
                own.padding);
  visitor.field(
      {.name = "dilation",
       .meaning = "distance between the elements of the kernel: one number, or [height, width]; 1 if left out",
       .range = at_least(1).at_most(kLargestSize)},
      own.dilation);
  visitor.field({.name = "groups",
                 .meaning = "number of groups of channels that are convolved separately; must divide the numbers of "
                            "input and output channels",
                 .range = at_least(1).at_most(kLargestSize)},
                own.groups);
  visitor.field({.name = "bias", .meaning = "add a bias to each channel; useless before a batch_norm"}, own.bias);
  own.weights.describe(visitor);
}

std::unique_ptr<Layer> make_convolution(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  require_image(in, "convolution");
  const auto own = settings.own.of<ConvolutionSettings>();
  kernels::ConvolutionSpec spec = spec_of(own, in.extent);
  spec.winograd = context.winograd;
  check_groups(spec);
  check_fit(spec);
  return std::make_unique<Convolution>(spec, own.bias, own.weights);
}

}  // namespace

LayerKind convolution_layer() {
  return {.name = "convolution",
          .meaning = "2D convolution (a cross-correlation, as in other frameworks)",
          .describe = describe_convolution,
          .make = make_convolution};
}

}  // namespace unisono::nn
