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
  bool has_block_rates = false;  ///< whether it adapts the rate of each block of weights by norms of the whole block
  /// Whether the rule is θ ← θ − rate · g where only learning_rate is set. Models that are updated in place make these
  /// steps themselves.
  bool is_gradient_descent = false;
  /// Whether it minimises the loss of the whole training set, one iteration an epoch. It then has no learning rate, and
  /// no OptimizerKind::make.
  bool whole_batch = false;
  bool alternating = false;  ///< whether it is a whole-batch method but no BatchMethod: alternating least squares
  /// Whether it asks for BatchFunction::hessian_times, which only models with second derivatives have.
  bool needs_hessian = false;
  /// Whether a whole-batch method takes l1 penalties (BatchFunction::l1). Others refuse them when they are run.
  bool takes_l1 = false;
  /// Vectors of θ's size that a whole-batch method has in addition to its state.
  int temporaries = 0;
};

/// A value of `optimizer.kind`.
struct OptimizerKind {
  std::string_view name, meaning;
  /// Declares the kind's own keys; null: it has none.
  void (*describe)(OptimizerSettings& settings, ConfigVisitor& visitor) = nullptr;
  /// Names of the vectors of θ's size that the kind keeps.
  std::vector<std::string> (*state)(const OptimizerSettings& settings);
  /// Makes an update rule; null: the kind is a whole-batch method.
  std::unique_ptr<Optimizer> (*make)(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     kernels::UpdateKernels& kernels) = nullptr;
  /// Makes a whole-batch method for vectors of `size` floats; null: the kind is none.
  std::unique_ptr<BatchMethod> (*make_batch)(const OptimizerSettings& settings, Index size) = nullptr;
  OptimizerTraits traits = {};
};

/// Every update rule. A new one needs a row here, and nothing else outside its own file.
const std::vector<OptimizerKind>& optimizer_kinds();

/// The kind that settings.kind names. \throws ConfigError for a name that is none
const OptimizerKind& kind_of(const OptimizerSettings& settings);
/// Whether settings.kind uses the whole training set in every step; false for an unknown name.
bool is_whole_batch(const OptimizerSettings& settings);
/// The kinds that use the whole training set in every step: "a, b or c".
std::string names_of_whole_batch_kinds();
/// The traits of the kind that settings.kind names. \throws ConfigError for an unknown name
inline const OptimizerTraits& traits_of(const OptimizerSettings& settings) { return kind_of(settings).traits; }

/// `[optimizer] kind = "als"`
struct AlsSettings {
  double function_tolerance = 1e-6;  ///< the run ends where an iteration changes the objective by at most
                                     ///< this share of it; 0: never
};

}  // namespace unisono::optim
