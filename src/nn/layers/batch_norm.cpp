#include "layers/batch_norm.hpp"

#include "layers/common.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
BatchNorm::BatchNorm(const Options& options, const Shape& in)
    : Layer(in), options_(options), spec_{.extent = in.extent, .epsilon = options.epsilon} {}

LayerTraits BatchNorm::traits() const {
  const bool relu = spec_.activation == kernels::Activation::relu;
  return {.keeps_input = true,
          .keeps_output = relu,
          .changes_gradient = relu,
          .collective = options_.global && !frozen_,
          .local_statistics = !options_.global && !frozen_};
}

std::string BatchNorm::note() const {
  if (frozen_) return "frozen batch statistics";
  return options_.global ? "global batch statistics" : "local batch statistics";
}

void BatchNorm::declare(const std::string& name, const kernels::Backend&, ParameterLayout& parameters,
                        ParameterLayout& statistics) {
  const auto block = [&](const char* suffix, Role role, const char* initialiser) {
    return Block{.name = name + suffix, .shape = {spec_.extent.channels}, .role = role, .initialiser = initialiser};
  };
  gamma_ = declare_block(parameters, block(".gamma", Role::norm, "ones"));
  beta_ = declare_block(parameters, block(".beta", Role::norm, "zeros"));
  mean_ = declare_block(statistics, block(".mean", Role::statistic, "zeros"));
  variance_ = declare_block(statistics, block(".variance", Role::statistic, "ones"));
}

Index BatchNorm::sums_size() const { return 2 * (2 * spec_.extent.channels + 1); }

Index BatchNorm::kept_size() const {
  return 2 * round_up_to_line(spec_.extent.channels) + round_up_to_line(sums_size());
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
  if (adds_residual_ || spec_.activation != kernels::Activation::none) return false;
  adds_residual_ = true;
  return true;
}

void BatchNorm::sum_over_ranks(const Pass& pass, std::span<double> sums) const {
  if (options_.global) pass.reducer.sum(sums);
}

void BatchNorm::forward(const Pass& pass, const ForwardViews& views) const {
  const Kept kept = parts_of(views.kept);
  const MutableView running_mean = part(pass.statistics, mean_), running_variance = part(pass.statistics, variance_);
  if (pass.training && !frozen_) {
    pass.backend.batch_norm_sums(spec_, pass.batch, views.x, kept.sums);
    sum_over_ranks(pass, kept.sums);
    pass.backend.batch_norm_moments(spec_, kept.sums, options_.momentum, running_mean, running_variance, kept.mean,
                                    kept.inverse_deviation);
  } else {
    pass.backend.batch_norm_running_moments(spec_, running_mean, running_variance, kept.mean, kept.inverse_deviation);
  }
  if (pass.batch == 0) return;
  pass.backend.batch_norm_forward(spec_, pass.batch, views.x, kept.mean, kept.inverse_deviation,
                                  part(pass.parameters, gamma_), part(pass.parameters, beta_), views.residual, views.y);
}

// dβ = Σ dy and dγ = Σ dy x̂ are this rank's own, as all of g; only dx needs the sums over the ranks.
void BatchNorm::backward(const Pass& pass, const BackwardViews& views) const {
  const Kept kept = parts_of(views.kept);
  pass.backend.batch_norm_backward_sums(spec_, pass.batch, views.x, kept.mean, kept.inverse_deviation, views.y,
                                        views.dy, kept.sums);
  pass.backend.batch_norm_parameter_gradients(spec_, kept.sums, part(views.gradient, gamma_),
                                              part(views.gradient, beta_), views.write);
  if (frozen_) {
    pass.backend.clear(views.kept.last(static_cast<std::size_t>(round_up_to_line(sums_size()))));  // of no examples
  } else {
    sum_over_ranks(pass, kept.sums);
  }
  if (pass.batch == 0 || views.dx.empty()) return;
  pass.backend.batch_norm_backward(spec_, pass.batch, views.x, kept.mean, kept.inverse_deviation,
                                   part(pass.parameters, gamma_), views.dy, kept.sums, views.dx);
}

void describe_batch_norm(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.choice(
      {.name = "statistics", .meaning = "over which examples mean and variance are computed during training"},
      settings.statistics,
      {{"auto", "global if the strategy keeps the ranks in step, otherwise local"},
       {"global",
        "the micro-batch of all ranks, so that P ranks give the result of one (synchronised batch normalisation)"},
       {"local", "only this rank's part of the micro-batch"}});
  visitor.field({.name = "momentum",
                 .meaning = "weight of the newest micro-batch in the running statistics",
                 .minimum = 0,
                 .maximum = 1},
                settings.momentum);
  visitor.field({.name = "epsilon", .meaning = "small number that is added to the variance", .minimum = 1e-30},
                settings.epsilon);
}

std::unique_ptr<Layer> make_batch_norm(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  require_image({in.extent, in.flat && in.extent.height * in.extent.width > 1}, "batch_norm");
  if (settings.statistics == "global" && !context.steps_together) {
    throw ConfigError(
        "statistics = \"global\" needs a strategy that keeps the ranks in step, and this one does not; use \"auto\" or "
        "\"local\"");
  }
  const bool global = settings.statistics == "global" || (settings.statistics == "auto" && context.steps_together);
  return std::make_unique<BatchNorm>(
      BatchNorm::Options{.global = global, .momentum = settings.momentum, .epsilon = settings.epsilon}, in);
}

}  // namespace unisono::nn
