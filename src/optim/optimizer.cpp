#include "unisono/optim/optimizer.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

/// A kind of optimizer: how it is made and how many vectors of θ's size it keeps.
struct Kind {
  std::unique_ptr<Optimizer> (*make)(const OptimizerSettings&, const ParameterLayout&, kernels::Backend&);
  int state_vectors;
};

Kind kind_of(const OptimizerSettings& settings) {
  if (settings.kind == "sgd") return {make_sgd, settings.sgd.momentum > 0 ? 1 : 0};
  if (settings.kind == "adagrad") return {make_adagrad, 1};
  if (settings.kind == "rmsprop") return {make_rmsprop, 1};
  if (settings.kind == "adam" || settings.kind == "adamw") return {make_adam, 2};
  if (settings.kind == "lars") return {make_lars, settings.lars.momentum > 0 ? 1 : 0};
  if (settings.kind == "lamb") return {make_lamb, 2};
  throw ConfigError(fmt::format("optimizer.kind is '{}'; it must be sgd, adagrad, rmsprop, adam, adamw, lars or lamb",
                                settings.kind));
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const ParameterLayout& layout,
                                          kernels::Backend& backend) {
  return kind_of(settings).make(settings, layout, backend);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const DividedParameters& parameters,
                                          kernels::Backend& backend) {
  const ParameterLayout& local = parameters.map.local(parameters.rank);
  std::unique_ptr<Optimizer> optimizer = make_optimizer(settings, local, backend);
  if (is_divided(parameters.map)) static_cast<UpdateRule&>(*optimizer).divide(parameters);
  return optimizer;
}

int optimizer_state_vectors(const OptimizerSettings& settings) { return kind_of(settings).state_vectors; }

}  // namespace unisono::optim
