#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/optim/optimizer.hpp"

namespace unisono::optim {

/// Properties of an update rule, so that other modules need not know its name.
struct OptimizerTraits {
  bool has_block_rates = false;  ///< adapts the rate of each block of weights by norms of the whole block
  /// It is θ ← θ − rate · g where only learning_rate is set. Models that are updated in place make such steps
  /// themselves.
  bool is_gradient_descent = false;
};

/// A value of `optimizer.kind`.
struct OptimizerKind {
  std::string_view name, meaning;
  void (*describe)(OptimizerSettings& settings, ConfigVisitor& visitor) = nullptr;  ///< its keys; null: it has none
  /// Names of the vectors of θ's size that it keeps.
  std::vector<std::string> (*state)(const OptimizerSettings& settings);
  std::unique_ptr<Optimizer> (*make)(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     kernels::UpdateKernels& kernels);
  OptimizerTraits traits = {};
};

/// Every update rule. A new one needs a row here, and nothing else outside its own file.
const std::vector<OptimizerKind>& optimizer_kinds();

/// \throws ConfigError for a name that is none
const OptimizerKind& kind_of(const OptimizerSettings& settings);
inline const OptimizerTraits& traits_of(const OptimizerSettings& settings) { return kind_of(settings).traits; }

}  // namespace unisono::optim
