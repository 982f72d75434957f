#pragma once

#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::experiment {

/// The keys of `[train]` that say where a model's weights come from, which of them are trained, and which are used.
struct WeightSettings {
  std::string initialise_from;      ///< a run's folder, or a checkpoint; empty: initial values alone
  std::vector<std::string> freeze;  ///< patterns of names, see ParameterLayout::freeze
  double average = 0;               ///< `weight_average`: the decay of θ's moving average; 0: none
  void describe(ConfigVisitor& visitor);
};

/// What of a config decides whether these keys have a meaning.
struct WeightTerms {
  const std::string& model;     ///< model.kind
  const std::string& strategy;  ///< strategy.kind
  bool has_one_model = false;   ///< the strategy's trait
  bool in_place = false;        ///< the model is updated in place
};

/// Checks them against the rest of a config, as errors of [train].
void require_weights(ConfigVisitor& visitor, const WeightSettings& weights, const WeightTerms& terms);

}  // namespace unisono::experiment
