#include "unisono/optim/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "update_rule.hpp"

namespace unisono::optim {

// Each is defined in the file of its name.
OptimizerKind sgd(), adagrad(), rmsprop(), adam(), adamw(), lars(), lamb();

const std::vector<OptimizerKind>& optimizer_kinds() {
  static const std::vector<OptimizerKind> kinds = {sgd(), adagrad(), rmsprop(), adam(), adamw(), lars(), lamb()};
  return kinds;
}

namespace {

/// "a, b or c"
std::string names_of_kinds() {
  std::string names;
  const auto& kinds = optimizer_kinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (i > 0) names += i + 1 == kinds.size() ? " or " : ", ";
    names += kinds[i].name;
  }
  return names;
}

}  // namespace

std::string default_optimizer() { return std::string(optimizer_kinds().front().name); }

const OptimizerKind& kind_of(const OptimizerSettings& settings) {
  const auto& kinds = optimizer_kinds();
  const auto found = std::ranges::find(kinds, settings.kind, &OptimizerKind::name);
  if (found != kinds.end()) return *found;
  throw ConfigError(fmt::format("optimizer.kind is '{}'; it must be {}", settings.kind, names_of_kinds()));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const ParameterLayout& layout,
                                          kernels::UpdateKernels& kernels) {
  return kind_of(settings).make(settings, layout, kernels);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const DividedParameters& parameters,
                                          kernels::UpdateKernels& kernels) {
  std::unique_ptr<Optimizer> optimizer = make_optimizer(settings, parameters.map.local(parameters.rank), kernels);
  if (is_divided(parameters.map)) static_cast<UpdateRule&>(*optimizer).divide(parameters);
  return optimizer;
}

int optimizer_state_vectors(const OptimizerSettings& settings) {
  return static_cast<int>(kind_of(settings).state(settings).size());
}

}  // namespace unisono::optim
