#include "unisono/settings/weight_settings.hpp"

#include <fmt/format.h>

#include "unisono/strategies/catalog.hpp"

namespace unisono::settings {

void WeightSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "initialise_from",
                 .meaning = "a run's folder (its newest checkpoint) or a checkpoint file, to start from: parameters "
                            "whose names and shapes agree with this model's are taken from there, the others get "
                            "their initial values; --resume does not read it again. Empty: initial values alone"},
                initialise_from);
  visitor.field({.name = "freeze",
                 .meaning = "parameters of a network that training does not change, by the names of parameters or of "
                            "their layers; * stands for any characters: [\"convolution*\", \"dense1.bias\"]. A "
                            "batch_norm layer that is frozen normalises by its running statistics, which stay as they "
                            "are, too"},
                freeze);
  visitor.field({.name = "weight_average",
                 .meaning = "decay of a moving average of the parameters, for instance 0.999, which is then evaluated, "
                            "judged and used by evaluate and predict instead of the parameters themselves; 0: none",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                average);
}

void require_weights(ConfigVisitor& visitor, const WeightSettings& weights, const WeightTerms& terms) {
  visitor.require("train", weights.freeze.empty() || terms.model == "network",
                  fmt::format("train.freeze is for model.kind = \"network\", not for \"{}\"; remove it", terms.model));
  if (weights.average == 0) return;
  visitor.require("train", !terms.in_place,
                  fmt::format("train.weight_average: model.kind = \"{}\" is updated in place, example by example, so "
                              "there are no steps to average over; remove it",
                              terms.model));
  visitor.require("train", terms.has_one_model,
                  fmt::format("train.weight_average needs ranks that regularly hold the same model: use strategy.kind "
                              "= {}, not \"{}\", or remove it",
                              strategies::names_of_kinds(
                                  [](const strategies::StrategyTraits& traits) { return traits.has_one_model; }),
                              terms.strategy));
}

}  // namespace unisono::settings
