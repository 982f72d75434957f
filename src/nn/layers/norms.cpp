#include <memory>
#include <span>
#include <string>

#include "layers/catalog.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/nn/decodable.hpp"
#include "unisono/nn/layer.hpp"

namespace unisono::nn {
namespace {

/// y[c] = γ[c] x̂[c] + β[c] with x̂ = (x − mean) / √(variance + ε), for each channel; a following ReLU and the addition
/// of a residual block can be fused into it.
///
/// Training: mean and (biased) variance of the micro-batch, of this rank's part of it (local) or of all ranks' (global:
/// one sum of 2C + 1 doubles over the ranks, forward and backward). Running values follow them,
///     running ← (1 − momentum) running + momentum · batch,    the variance unbiased (n − 1; a single value counts as
///     0),
/// and take their place outside training. Ioffe and Szegedy, ICML 2015.
///
/// Frozen: the running values do not change. They are used in training, too, and are constants in the backward pass.
class BatchNorm final : public Layer {
 public:
  struct Options {
    bool global = false;
    double momentum = 0.1, epsilon = 1e-5;
  };
  BatchNorm(const Options& options, const Shape& in);

  LayerTraits traits() const override;
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  Index kept_size() const override;
  Index carried_size() const override;
  Index moments_size() const override;
  std::string note() const override;
  Operation operation() const override {
    return BatchNormOperation{.epsilon = options_.epsilon,
                              .momentum = options_.momentum,
                              .gamma = gamma_.name,
                              .beta = beta_.name,
                              .mean = mean_.name,
                              .variance = variance_.name};
  }
  void freeze() override { frozen_ = true; }
  bool absorb_relu() override;
  bool absorb_addition() override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
  void apply_moments(const Pass& pass, MutableView moments) const override;

 private:
  struct Kept {
    MutableView mean, inverse_deviation;  ///< [C], from the forward pass for the backward pass
    std::span<double> sums;               ///< [2C + 1] sums of the forward pass, then of the backward pass
  };
  struct Gradients {
    MutableView gamma, beta;  ///< [C]
  };
  Index sums_size() const;  ///< floats
  Kept parts_of(MutableView kept) const;
  kernels::NormTerms terms_of(const Pass& pass, const Kept& kept) const {
    return {kept.mean, kept.inverse_deviation, pass.parameter(gamma_), pass.parameter(beta_)};
  }
  Gradients parts_of_carried(MutableView carried) const;
  Gradients gradients_of(const Pass& pass, const BackwardViews& views) const;
  std::span<double> sums_in(MutableView moments) const;
  void sum_over_ranks(const Pass& pass, std::span<double> sums) const;
  void batch_moments(const Pass& pass, const ForwardViews& views, const Kept& kept) const;
  void input_gradient(const Pass& pass, const BackwardViews& views, const Kept& kept) const;
  void take_carried(const Pass& pass, const BackwardViews& views) const;

  Options options_;
  kernels::NormSpec spec_;
  bool frozen_ = false;
  Block gamma_, beta_, mean_, variance_;
};

/// Over which examples mean and variance are computed during training.
enum class Statistics { automatic, global, local };

constexpr Named<Statistics> kStatistics[] = {
    {Statistics::automatic, "auto", "global if the strategy keeps the ranks in step, otherwise local"},
    {Statistics::global, "global",
     "the micro-batch of all ranks, so that P ranks give the result of one (synchronised batch normalisation)"},
    {Statistics::local, "local", "only this rank's part of the micro-batch"}};

struct BatchNormSettings {
  Statistics statistics = Statistics::automatic;
  double momentum = 0.1;  ///< of the running statistics
  double epsilon = 1e-5;
};

void describe_batch_norm(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<BatchNormSettings>();
  visitor.choice(
      {.name = "statistics", .meaning = "over which examples mean and variance are computed during training"},
      own.statistics, kStatistics);
  visitor.field({.name = "momentum",
                 .meaning = "weight of the newest micro-batch in the running statistics",
                 .range = at_least(0).at_most(1)},
                own.momentum);
  visitor.field({.name = "epsilon", .meaning = "small number that is added to the variance", .range = at_least(1e-30)},
                own.epsilon);
}

std::unique_ptr<Layer> make_batch_norm(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  require_image({in.extent, in.flat && in.extent.height * in.extent.width > 1}, "batch_norm");
  const auto own = settings.own.of<BatchNormSettings>();
  if (own.statistics == Statistics::global && !context.steps_together) {
    throw ConfigError(
        "statistics = \"global\" needs a strategy that keeps the ranks in step, and this one does not; use \"auto\" or "
        "\"local\"");
  }
  const bool global = own.statistics != Statistics::local && context.steps_together;
  return std::make_unique<BatchNorm>(
      BatchNorm::Options{.global = global, .momentum = own.momentum, .epsilon = own.epsilon}, in);
}

}  // namespace

BatchNorm::BatchNorm(const Options& options, const Shape& in)
    : Layer(in), options_(options), spec_{.extent = in.extent, .epsilon = options.epsilon} {}

LayerTraits BatchNorm::traits() const {
  const bool masks_dy = spec_.relu_mask() == kernels::ReluMask::from_output;
  return {.keeps_input = true,
          .keeps_output = masks_dy,
          .gradient_in_place = true,
          .changes_gradient = masks_dy,
          .collective = options_.global && !frozen_,
          .local_statistics = !options_.global && !frozen_,
          .compares_examples = !frozen_ && spec_.extent.height * spec_.extent.width == 1};
}

std::string BatchNorm::note() const {
  if (frozen_) return "frozen batch statistics";
  return options_.global ? "global batch statistics" : "local batch statistics";
}

void BatchNorm::declare(const std::string& name, const kernels::Backend&, ParameterLayout& parameters,
                        ParameterLayout& statistics) {
  const auto block = [&](const char* suffix, Role role, Initialiser initialiser) {
    return Block{.name = name + suffix, .shape = {spec_.extent.channels}, .role = role, .initialiser = initialiser};
  };
  gamma_ = declare_block(parameters, block(".gamma", Role::norm, Initialiser::ones));
  beta_ = declare_block(parameters, block(".beta", Role::norm, Initialiser::zeros));
  mean_ = declare_block(statistics, block(".mean", Role::statistic, Initialiser::zeros));
  variance_ = declare_block(statistics, block(".variance", Role::statistic, Initialiser::ones));
}

Index BatchNorm::sums_size() const { return 2 * (2 * spec_.extent.channels + 1); }

Index BatchNorm::kept_size() const {
  return 2 * round_up_to_line(spec_.extent.channels) + round_up_to_line(sums_size());
}

Index BatchNorm::carried_size() const { return 2 * round_up_to_line(spec_.extent.channels); }

Index BatchNorm::moments_size() const { return frozen_ ? 0 : round_up_to_line(sums_size()); }

std::span<double> BatchNorm::sums_in(MutableView moments) const {
  return as_doubles(moments.first(static_cast<std::size_t>(sums_size())));
}

BatchNorm::Gradients BatchNorm::parts_of_carried(MutableView carried) const {
  const auto channels = static_cast<std::size_t>(spec_.extent.channels);
  return {carried.first(channels), carried.last(carried.size() / 2).first(channels)};
}

BatchNorm::Gradients BatchNorm::gradients_of(const Pass& pass, const BackwardViews& views) const {
  return {pass.gradient(views.gradient, gamma_), pass.gradient(views.gradient, beta_)};
}

BatchNorm::Kept BatchNorm::parts_of(MutableView kept) const {
  const auto channels = static_cast<std::size_t>(spec_.extent.channels);
  const auto line = static_cast<std::size_t>(round_up_to_line(spec_.extent.channels));
  return {kept.first(channels), kept.subspan(line, channels),
          as_doubles(kept.subspan(2 * line, static_cast<std::size_t>(sums_size())))};
}

bool BatchNorm::absorb_relu() {
  if (spec_.activation != kernels::Activation::none) return false;
  spec_.activation = kernels::Activation::relu;
  return true;
}

bool BatchNorm::absorb_addition() {
  if (spec_.adds_residual || spec_.activation != kernels::Activation::none) return false;
  spec_.adds_residual = true;
  return true;
}

void BatchNorm::sum_over_ranks(const Pass& pass, std::span<double> sums) const {
  if (options_.global) pass.reducer.sum(sums);
}

void BatchNorm::batch_moments(const Pass& pass, const ForwardViews& views, const Kept& kept) const {
  const bool later = !views.moments.empty(), updates = pass.updates_statistics && !later;
  const std::span<double> sums = later ? sums_in(views.moments) : kept.sums;
  pass.backend.batch_norm_sums(spec_, pass.batch, views.x, sums);
  sum_over_ranks(pass, sums);
  pass.backend.batch_norm_moments(spec_, sums, options_.momentum, updates ? pass.statistic(mean_) : MutableView{},
                                  updates ? pass.statistic(variance_) : MutableView{}, kept.mean,
                                  kept.inverse_deviation);
}

void BatchNorm::forward(const Pass& pass, const ForwardViews& views) const {
  const Kept kept = parts_of(views.kept);
  if (pass.training && !frozen_) {
    batch_moments(pass, views, kept);
  } else {
    pass.backend.batch_norm_running_moments(spec_, pass.statistic(mean_), pass.statistic(variance_), kept.mean,
                                            kept.inverse_deviation);
  }
  if (pass.batch == 0) return;
  pass.backend.batch_norm_forward(spec_, pass.batch, views.x, terms_of(pass, kept), views.residual, views.y);
}

// The moments are Σ x, Σ x² and the count of values, over all ranks whose statistics these are.
void BatchNorm::apply_moments(const Pass& pass, MutableView moments) const {
  pass.backend.batch_norm_moments(spec_, sums_in(moments), options_.momentum, pass.statistic(mean_),
                                  pass.statistic(variance_), {}, {});
}

// dβ = Σ dy and dγ = Σ dy x̂ are sums over this rank's examples only, as all of g; dx needs the sums over the ranks. So
// in a backward pass in halves, the first half computes dγ and dβ, and saves them for the second.
void BatchNorm::backward(const Pass& pass, const BackwardViews& views) const {
  const bool in_halves = !views.carried.empty();
  if (in_halves && !views.gradient.empty()) return take_carried(pass, views);
  const Kept kept = parts_of(views.kept);
  pass.backend.batch_norm_backward_sums(spec_, pass.batch, views.x, terms_of(pass, kept), views.y, views.dy, kept.sums);
  const Gradients own = in_halves ? parts_of_carried(views.carried) : gradients_of(pass, views);
  if (!own.gamma.empty()) {
    pass.backend.batch_norm_parameter_gradients(spec_, kept.sums, own.gamma, own.beta,
                                                in_halves ? kernels::Write::overwrite : views.write);
  }
  input_gradient(pass, views, kept);
}

void BatchNorm::take_carried(const Pass& pass, const BackwardViews& views) const {
  const Gradients from = parts_of_carried(views.carried), to = gradients_of(pass, views);
  const float old = views.write == kernels::Write::add ? 1 : 0;
  pass.backend.axpby(1, from.gamma, old, to.gamma);
  pass.backend.axpby(1, from.beta, old, to.beta);
}

void BatchNorm::input_gradient(const Pass& pass, const BackwardViews& views, const Kept& kept) const {
  if (frozen_) {
    pass.backend.clear(views.kept.last(static_cast<std::size_t>(round_up_to_line(sums_size()))));  // of no examples
  } else {
    sum_over_ranks(pass, kept.sums);
  }
  if (pass.batch == 0 || views.dx.empty()) return;
  pass.backend.batch_norm_backward(spec_, pass.batch, views.x, terms_of(pass, kept), views.dy, kept.sums, views.dx);
}

LayerKind batch_norm_layer() {
  return {.name = "batch_norm",
          .meaning = "normalises each channel over the micro-batch (Ioffe & Szegedy 2015)",
          .describe = describe_batch_norm,
          .make = make_batch_norm};
}

namespace {

/// Which values of an image are normalised together.
enum class NormOver { example, channels };

constexpr Named<NormOver> kNormOver[] = {
    {NormOver::example, "example", "all values of an example, or of a row of a sequence"},
    {NormOver::channels, "channels", "the channels of each pixel of an image, as in ConvNeXt (Liu et al. 2022)"}};

struct LayerNormSettings {
  double epsilon = 1e-5;
  NormOver over = NormOver::example;
};

struct RmsNormSettings {
  double epsilon = 1e-5;
};

/// y = γ ⊙ (x − mean) / √(variance + ε) + β, mean and variance of each row over all its values; γ and β have one
/// value for each element. Ba, Kiros and Hinton, 2016. Or of each pixel over its channels; γ and β have one value for
/// each channel then.
class LayerNorm final : public Layer, public Decodable {
 public:
  LayerNorm(const LayerNormSettings& settings, const Shape& in);

  LayerTraits traits() const override { return {.keeps_input = true}; }
  Operation operation() const override {
    return LayerNormOperation{.spec = spec_, .gamma = gamma_.name, .beta = beta_.name};
  }
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
  void decode(const DecodeStep& step, const DecodeViews& views) const override {
    step.kernels.decode_layer_norm(spec_, step.size(), views.x, step.parameter(gamma_), step.parameter(beta_), views.y);
  }

 private:
  kernels::NormSpec spec_;
  Block gamma_, beta_;
};

LayerNorm::LayerNorm(const LayerNormSettings& settings, const Shape& in)
    : Layer(in),
      spec_{.extent = in.extent, .epsilon = settings.epsilon, .of_pixels = settings.over == NormOver::channels} {}

void LayerNorm::declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
                        ParameterLayout&) {
  const kernels::Extent& of = spec_.extent;
  const auto block = [&](const char* suffix, Initialiser initialiser) {
    Block one{.name = name + suffix, .shape = {of.channels}, .role = Role::norm, .initialiser = initialiser};
    if (!spec_.of_pixels) {
      one.shape = {of.channels, of.height, of.width};
      one.axes = backend.feature_axes();
    }
    return declare_block(parameters, one);
  };
  gamma_ = block(".gamma", Initialiser::ones);
  beta_ = block(".beta", Initialiser::zeros);
}

void LayerNorm::forward(const Pass& pass, const ForwardViews& views) const {
  pass.backend.layer_norm_forward(spec_, rows(pass), views.x, pass.parameter(gamma_), pass.parameter(beta_), views.y);
}

void LayerNorm::backward(const Pass& pass, const BackwardViews& views) const {
  pass.backend.layer_norm_backward(spec_, rows(pass), views.x, pass.parameter(gamma_), views.dy, views.dx,
                                   pass.gradient(views.gradient, gamma_), pass.gradient(views.gradient, beta_),
                                   views.write);
}

void describe_layer_norm(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "epsilon", .meaning = "small number that is added to the variance", .range = at_least(1e-30)},
                settings.own.of<LayerNormSettings>().epsilon);
  visitor.choice({.name = "over", .meaning = "which values are normalised together"},
                 settings.own.of<LayerNormSettings>().over, kNormOver);
}

std::unique_ptr<Layer> make_layer_norm(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  const auto own = settings.own.of<LayerNormSettings>();
  if (own.over == NormOver::channels) require_image(in, "layer_norm over channels");
  return std::make_unique<LayerNorm>(own, in);
}

struct ScaleSettings {
  double initial = 1;
};

/// y = γ[c] x [+ residual]: each channel, or value of a row, times a parameter. Touvron et al., ICCV 2021 (LayerScale).
/// It is batch normalisation with constants: mean 0, deviation 1 and β = 0.
class Scale final : public Layer {
 public:
  Scale(double initial, const Shape& in) : Layer(in), initial_(initial), spec_{.extent = in.extent, .epsilon = 1} {}

  LayerTraits traits() const override { return {.keeps_input = true}; }
  Operation operation() const override { return ScaleOperation{gamma_.name}; }
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  Index kept_size() const override { return 3 * line() + round_up_to_line(2 * sums_size()); }
  bool absorb_addition() override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  struct Kept {
    MutableView zeros, ones, dbeta;  ///< [C]; dβ is nobody's
    std::span<double> sums;          ///< [2C + 1]
  };
  Index line() const { return round_up_to_line(spec_.extent.channels); }
  Index sums_size() const { return 2 * spec_.extent.channels + 1; }
  Kept parts_of(MutableView kept) const;
  kernels::NormTerms terms_of(const Pass& pass, const Kept& kept) const {
    return {kept.zeros, kept.ones, pass.parameter(gamma_), kept.zeros};
  }

  double initial_;
  kernels::NormSpec spec_;
  Block gamma_;
};

void Scale::declare(const std::string& name, const kernels::Backend&, ParameterLayout& parameters, ParameterLayout&) {
  gamma_ = declare_block(parameters, {.name = name + ".gamma",
                                      .shape = {spec_.extent.channels},
                                      .role = Role::norm,
                                      .initialiser = Initialiser::constant,
                                      .deviation = initial_});
}

bool Scale::absorb_addition() {
  if (spec_.adds_residual) return false;
  spec_.adds_residual = true;
  return true;
}

Scale::Kept Scale::parts_of(MutableView kept) const {
  const auto channels = static_cast<std::size_t>(spec_.extent.channels), line = static_cast<std::size_t>(this->line());
  return {kept.first(channels), kept.subspan(line, channels), kept.subspan(2 * line, channels),
          as_doubles(kept.subspan(3 * line, static_cast<std::size_t>(2 * sums_size())))};
}

void Scale::forward(const Pass& pass, const ForwardViews& views) const {
  const Kept kept = parts_of(views.kept);
  pass.backend.clear(kept.zeros);
  // 1 / √(0 + 1)
  pass.backend.batch_norm_running_moments(spec_, kept.zeros, kept.zeros, kept.dbeta, kept.ones);
  pass.backend.batch_norm_forward(spec_, rows(pass), views.x, terms_of(pass, kept), views.residual, views.y);
}

void Scale::backward(const Pass& pass, const BackwardViews& views) const {
  const Kept kept = parts_of(views.kept);
  const MutableView dgamma = pass.gradient(views.gradient, gamma_);
  if (!dgamma.empty()) {
    pass.backend.batch_norm_backward_sums(spec_, rows(pass), views.x, terms_of(pass, kept), {}, views.dy, kept.sums);
    pass.backend.batch_norm_parameter_gradients(spec_, kept.sums, dgamma, kept.dbeta, views.write);
  }
  if (views.dx.empty()) return;
  pass.backend.clear(views.kept.subspan(static_cast<std::size_t>(3 * line())));  // sums over no values: constants
  pass.backend.batch_norm_backward(spec_, rows(pass), views.x, terms_of(pass, kept), views.dy, kept.sums, views.dx);
}

void describe_scale(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "initial", .meaning = "initial factor of all channels"},
                settings.own.of<ScaleSettings>().initial);
}

std::unique_ptr<Layer> make_scale(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  require_image({in.extent, in.flat && in.extent.height * in.extent.width > 1}, "scale");
  return std::make_unique<Scale>(settings.own.of<ScaleSettings>().initial, in);
}

/// y = γ ⊙ x / √(mean(x²) + ε) of each row; γ has one value for each element. Zhang and Sennrich, NeurIPS 2019.
class RmsNorm final : public Layer, public Decodable {
 public:
  RmsNorm(double epsilon, const Shape& in) : Layer(in), spec_{.extent = in.extent, .epsilon = epsilon} {}

  LayerTraits traits() const override { return {.keeps_input = true}; }
  Operation operation() const override { return RmsNormOperation{.epsilon = spec_.epsilon, .gamma = gamma_.name}; }
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
  void decode(const DecodeStep& step, const DecodeViews& views) const override {
    step.kernels.decode_rms_norm(spec_, step.size(), views.x, step.parameter(gamma_), views.y);
  }

 private:
  kernels::NormSpec spec_;
  Block gamma_;
};

void RmsNorm::declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
                      ParameterLayout&) {
  const kernels::Extent& of = spec_.extent;
  gamma_ = declare_block(parameters, {.name = name + ".gamma",
                                      .shape = {of.channels, of.height, of.width},
                                      .axes = backend.feature_axes(),
                                      .role = Role::norm,
                                      .initialiser = Initialiser::ones});
}

void RmsNorm::forward(const Pass& pass, const ForwardViews& views) const {
  pass.backend.rms_norm_forward(spec_, rows(pass), views.x, pass.parameter(gamma_), views.y);
}

void RmsNorm::backward(const Pass& pass, const BackwardViews& views) const {
  pass.backend.rms_norm_backward(spec_, rows(pass), views.x, pass.parameter(gamma_), views.dy, views.dx,
                                 pass.gradient(views.gradient, gamma_), views.write);
}

void describe_rms_norm(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.field(
      {.name = "epsilon", .meaning = "small number that is added to the mean square", .range = at_least(1e-30)},
      settings.own.of<RmsNormSettings>().epsilon);
}

std::unique_ptr<Layer> make_rms_norm(const LayerSettings& settings, const Shape& in, const LayerContext&) {
  return std::make_unique<RmsNorm>(settings.own.of<RmsNormSettings>().epsilon, in);
}

}  // namespace

LayerKind rms_norm_layer() {
  return {
      .name = "rms_norm",
      .meaning = "divides each example, or row of a sequence, by the root of its mean square (Zhang & Sennrich 2019)",
      .describe = describe_rms_norm,
      .make = make_rms_norm,
      .of_sequences = true};
}

LayerKind scale_layer() {
  return {.name = "scale",
          .meaning = "multiplies each channel, or value of a row, by a parameter (LayerScale, Touvron et al. 2021)",
          .describe = describe_scale,
          .make = make_scale,
          .of_sequences = true};
}

LayerKind layer_norm_layer() {
  return {.name = "layer_norm",
          .meaning = "normalises each example, row of a sequence or pixel over its own values (Ba et al. 2016)",
          .describe = describe_layer_norm,
          .make = make_layer_norm,
          .of_sequences = true};
}

}  // namespace unisono::nn
