#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/optim/batch_method.hpp"
#include "unisono/optim/optimizer.hpp"

namespace unisono::optim {

/// Properties of an update rule, so that other modules need not know its name.
struct OptimizerTraits {
  bool has_block_rates = false;  ///< adapts the rate of each block of weights by norms of the whole block
  /// It is θ ← θ − rate · g where only learning_rate is set. Models that are updated in place make such steps
  /// themselves.
  bool is_gradient_descent = false;
  /// It minimises the loss of the whole training set, one iteration an epoch. It has no
  /// learning rate, and no `make`.
  bool whole_batch = false;
  bool alternating = false;    ///< a whole-batch method that is no BatchMethod: alternating least squares
  bool needs_hessian = false;  ///< asks for BatchFunction::hessian_times: only for models with second derivatives
  /// A whole-batch method that knows what to do with BatchFunction::l1. Others refuse it when they are run.
  bool takes_l1 = false;
  /// Vectors of θ's size that a whole-batch method has beside its state.
  int temporaries = 0;
};

/// A value of `optimizer.kind`.
struct OptimizerKind {
  std::string_view name, meaning;
  void (*describe)(OptimizerSettings& settings, ConfigVisitor& visitor) = nullptr;  ///< its keys; null: it has none
  /// Names of the vectors of θ's size that it keeps.
  std::vector<std::string> (*state)(const OptimizerSettings& settings);
  std::unique_ptr<Optimizer> (*make)(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     kernels::UpdateKernels& kernels) = nullptr;
  /// A whole-batch method for vectors of `size` floats; null: it is none.
  std::unique_ptr<BatchMethod> (*make_batch)(const OptimizerSettings& settings, Index size) = nullptr;
  OptimizerTraits traits = {};
};

/// Every update rule. A new one needs a row here, and nothing else outside its own file.
const std::vector<OptimizerKind>& optimizer_kinds();

/// \throws ConfigError for a name that is none
const OptimizerKind& kind_of(const OptimizerSettings& settings);
/// Whether it uses the whole training set in every step; false for a name that is none.
bool is_whole_batch(const OptimizerSettings& settings);
/// "a, b or c": the kinds that do.
std::string names_of_whole_batch_kinds();
inline const OptimizerTraits& traits_of(const OptimizerSettings& settings) { return kind_of(settings).traits; }

/// `[optimizer] kind = "als"`
struct AlsSettings {
  double function_tolerance = 1e-6;  ///< the run ends where an iteration changes the objective by at most
                                     ///< this share of it; 0: never
};

}  // namespace unisono::optim
