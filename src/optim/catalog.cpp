#include "unisono/optim/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
#include "update_rule.hpp"

namespace unisono::optim {

// Each is defined in the file of its name.
OptimizerKind sgd(), adagrad(), rmsprop(), adam(), adamw(), lars(), lamb();
OptimizerKind lbfgs(), newton_cg(), conjugate_gradient(), gradient_descent(), als();

const std::vector<OptimizerKind>& optimizer_kinds() {
  static const std::vector<OptimizerKind> kinds = {sgd(),
                                                   adagrad(),
                                                   rmsprop(),
                                                   adam(),
                                                   adamw(),
                                                   lars(),
                                                   lamb(),
                                                   lbfgs(),
                                                   newton_cg(),
                                                   conjugate_gradient(),
                                                   gradient_descent(),
                                                   als()};
  return kinds;
}

namespace {

/// "a, b or c": the kinds that fit.
template <typename Fits>
std::string names_of_kinds(Fits fits) {
  std::vector<std::string_view> fitting;
  for (const OptimizerKind& kind : optimizer_kinds()) {
    if (fits(kind)) fitting.push_back(kind.name);
  }
  return any_of(fitting);
}

/// Null for a name that is none.
const OptimizerKind* find_kind(std::string_view name) {
  const auto& kinds = optimizer_kinds();
  const auto found = std::ranges::find(kinds, name, &OptimizerKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace

std::string names_of_whole_batch_kinds() {
  return names_of_kinds([](const OptimizerKind& kind) { return kind.traits.whole_batch; });
}

bool is_whole_batch(const OptimizerSettings& settings) {
  const OptimizerKind* const kind = find_kind(settings.kind);
  return kind != nullptr && kind->traits.whole_batch;
}

std::string default_optimizer() { return std::string(optimizer_kinds().front().name); }

const OptimizerKind& kind_of(const OptimizerSettings& settings) {
  if (const OptimizerKind* const kind = find_kind(settings.kind)) return *kind;
  throw ConfigError(fmt::format("optimizer.kind is '{}'; it must be {}", settings.kind,
                                names_of_kinds([](const auto&) { return true; })));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const ParameterLayout& layout,
                                          kernels::UpdateKernels& kernels) {
  const OptimizerKind& kind = kind_of(settings);
  if (kind.make != nullptr) return kind.make(settings, layout, kernels);
  throw ConfigError(fmt::format(
      "optimizer.kind = \"{}\" steps on the whole training set: it needs strategy.kind = \"batch\"", settings.kind));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const DividedParameters& parameters,
                                          kernels::UpdateKernels& kernels) {
  std::unique_ptr<Optimizer> optimizer = make_optimizer(settings, parameters.map.local(parameters.rank), kernels);
  if (is_divided(parameters.map)) static_cast<UpdateRule&>(*optimizer).divide(DividedSums(parameters));
  return optimizer;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const SharedParameters& parameters,
                                          kernels::UpdateKernels& kernels) {
  std::unique_ptr<Optimizer> optimizer = make_optimizer(settings, layout_of_ranges(parameters), kernels);
  static_cast<UpdateRule&>(*optimizer).divide(DividedSums(parameters));
  return optimizer;
}

int optimizer_state_vectors(const OptimizerSettings& settings) {
  return static_cast<int>(kind_of(settings).state(settings).size());
}

}  // namespace unisono::optim
