#pragma once

#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::settings {

/// The keys of `[train]` that say where a model's weights come from, which of them are trained, and which are used.
struct WeightSettings {
  std::string initialise_from;      ///< a run's folder or a checkpoint; empty: only random initial values
  std::vector<std::string> freeze;  ///< patterns of names of blocks, see ParameterLayout::freeze
  double average = 0;               ///< `weight_average`: the decay of θ's moving average; 0: none
  void describe(ConfigVisitor& visitor);
};

/// The parts of a config that decide whether these keys are allowed.
struct WeightTerms {
  const std::string& model;     ///< model.kind
  const std::string& strategy;  ///< strategy.kind
  bool has_one_model = false;   ///< StrategyTraits::has_one_model
  bool in_place = false;        ///< whether the model is updated in place
};

/// Checks these keys against the rest of the config; errors are reported as of [train].
void require_weights(ConfigVisitor& visitor, const WeightSettings& weights, const WeightTerms& terms);

}  // namespace unisono::settings
