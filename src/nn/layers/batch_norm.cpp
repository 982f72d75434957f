#include "layers/batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include "layers/common.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

float inverse_deviation(double variance, double epsilon) {
  return static_cast<float>(1.0 / std::sqrt(variance + epsilon));
}

}  // namespace

BatchNorm::BatchNorm(const Options& options, const Shape& in)
    : Layer(in), options_(options), spec_{.extent = in.extent, .epsilon = static_cast<float>(options.epsilon)} {}

LayerTraits BatchNorm::traits() const {
  const bool relu = spec_.activation == Activation::relu;
  return {.keeps_input = true,
          .keeps_output = relu,
          .changes_gradient = relu,
          .collective = options_.global,
          .local_statistics = !options_.global};
}

void BatchNorm::declare(const std::string& name, const Backend&, ParameterLayout& parameters,
                        ParameterLayout& statistics) {
  const auto block = [&](const char* suffix, Role role, const char* initialiser) {
    return Block{.name = name + suffix, .shape = {spec_.extent.channels}, .role = role, .initialiser = initialiser};
  };
  gamma_ = declare_block(parameters, block(".gamma", Role::norm, "ones"));
  beta_ = declare_block(parameters, block(".beta", Role::norm, "zeros"));
  mean_ = declare_block(statistics, block(".mean", Role::statistic, "zeros"));
  variance_ = declare_block(statistics, block(".variance", Role::statistic, "ones"));
}

Index BatchNorm::kept_size() const { return 2 * round_up_to_line(spec_.extent.channels); }

BatchNorm::Moments BatchNorm::moments(MutableView kept) const {
  const auto channels = static_cast<std::size_t>(spec_.extent.channels);
  return {kept.first(channels), kept.subspan(kept.size() / 2, channels)};
}

bool BatchNorm::absorb_relu() {
  if (spec_.activation != Activation::none) return false;
  spec_.activation = Activation::relu;
  return true;
}

bool BatchNorm::absorb_addition() {
  if (adds_residual_ || spec_.activation != Activation::none) return false;
  adds_residual_ = true;
  return true;
}

/// Values a channel of this rank's part.
double BatchNorm::count(Index batch) const {
  return static_cast<double>(batch * spec_.extent.height * spec_.extent.width);
}

void BatchNorm::sum_over_ranks(const Pass& pass, std::vector<double>& sums) const {
  if (options_.global) pass.reducer.sum(sums);
}

// mean = Σx / n, variance = Σx² / n − mean², in double: the difference loses at most half of its 53 bits where the mean
// is 2¹³ deviations, which leaves more than a float holds.
void BatchNorm::moments_of_batch(const Pass& pass, View x, Moments to) const {
  const auto channels = static_cast<std::size_t>(spec_.extent.channels);
  std::vector<double> sums(2 * channels + 1, 0.0);  // Σx, Σx², n
  if (pass.batch > 0) pass.backend.batch_norm_sums(spec_, pass.batch, x, std::span(sums).first(2 * channels));
  sums.back() = count(pass.batch);
  sum_over_ranks(pass, sums);

  const double n = sums.back(), momentum = options_.momentum;
  if (n == 0) return;  // nobody has examples
  const MutableView running_mean = part(pass.statistics, mean_), running_variance = part(pass.statistics, variance_);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sums[c] / n, variance = std::max(0.0, sums[channels + c] / n - mean * mean);
    const double unbiased = variance * n / std::max(1.0, n - 1);
    to.mean[c] = static_cast<float>(mean);
    to.inverse_deviation[c] = inverse_deviation(variance, options_.epsilon);
    running_mean[c] = static_cast<float>((1 - momentum) * running_mean[c] + momentum * mean);
    running_variance[c] = static_cast<float>((1 - momentum) * running_variance[c] + momentum * unbiased);
  }
}

void BatchNorm::running_moments(const Pass& pass, Moments to) const {
  const View mean = part(View(pass.statistics), mean_), variance = part(View(pass.statistics), variance_);
  std::copy(mean.begin(), mean.end(), to.mean.begin());
  for (std::size_t c = 0; c < variance.size(); ++c) {
    to.inverse_deviation[c] = inverse_deviation(variance[c], options_.epsilon);
  }
}

void BatchNorm::forward(const Pass& pass, const ForwardViews& views) const {
  const Moments of = moments(views.kept);
  if (pass.training) {
    moments_of_batch(pass, views.x, of);
  } else {
    running_moments(pass, of);
  }
  if (pass.batch == 0) return;
  pass.backend.batch_norm_forward(spec_, pass.batch, views.x, of.mean, of.inverse_deviation,
                                  part(pass.parameters, gamma_), part(pass.parameters, beta_), views.residual, views.y);
}

// dβ = Σ dy and dγ = Σ dy x̂ are this rank's own, as all of g; only dx needs the sums over the ranks.
void BatchNorm::backward(const Pass& pass, const BackwardViews& views) const {
  const auto channels = static_cast<std::size_t>(spec_.extent.channels);
  const Moments of = moments(views.kept);
  std::vector<double> sums(2 * channels + 1, 0.0);  // Σ dy, Σ dy x̂, n
  if (pass.batch > 0) {
    pass.backend.batch_norm_backward_sums(spec_, pass.batch, views.x, of.mean, of.inverse_deviation, views.y, views.dy,
                                          std::span(sums).first(2 * channels));
  }
  const bool add = views.write == Write::add;
  const MutableView dbeta = part(views.gradient, beta_), dgamma = part(views.gradient, gamma_);
  for (std::size_t c = 0; c < channels; ++c) {
    dbeta[c] = (add ? dbeta[c] : 0) + static_cast<float>(sums[c]);
    dgamma[c] = (add ? dgamma[c] : 0) + static_cast<float>(sums[channels + c]);
  }
  sums.back() = count(pass.batch);
  sum_over_ranks(pass, sums);
  if (pass.batch == 0 || views.dx.empty()) return;
  pass.backend.batch_norm_backward(spec_, pass.batch, views.x, of.mean, of.inverse_deviation,
                                   part(pass.parameters, gamma_), views.dy, std::span(sums).first(2 * channels),
                                   sums.back(), views.dx);
}

void describe_batch_norm(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.choice({.name = "statistics", .meaning = "what mean and variance are taken over while training"},
                 settings.statistics,
                 {{"auto", "global where the strategy keeps the ranks in step, else local"},
                  {"global", "all ranks' parts of the micro-batch, so that P ranks equal one"},
                  {"local", "this rank's part of the micro-batch"}});
  visitor.field({.name = "momentum",
                 .meaning = "weight of a new micro-batch in the running statistics",
                 .minimum = 0,
                 .maximum = 1},
                settings.momentum);
  visitor.field({.name = "epsilon", .meaning = "added to the variance", .minimum = 1e-30}, settings.epsilon);
}

std::unique_ptr<Layer> make_batch_norm(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  require_image({in.extent, in.flat && in.extent.height * in.extent.width > 1}, "batch_norm");
  if (settings.statistics == "global" && !context.steps_together) {
    throw ConfigError(
        "statistics = \"global\" needs ranks that stay in step, but this strategy lets them drift apart; say \"auto\" "
        "or \"local\"");
  }
  const bool global = settings.statistics == "global" || (settings.statistics == "auto" && context.steps_together);
  return std::make_unique<BatchNorm>(
      BatchNorm::Options{.global = global, .momentum = settings.momentum, .epsilon = settings.epsilon}, in);
}

}  // namespace unisono
