#pragma once

#include <algorithm>
#include <cmath>

#include "layers.hpp"
#include "training.hpp"

namespace unisono::strategies {

/// A network of these layers.
inline MakeModel network_of(std::vector<nn::LayerSettings> layers) {
  models::ModelSettings settings;
  settings.network.layers = std::move(layers);
  return [settings](const models::ModelInputs& inputs, const models::ModelContext& context) {
    return models::make_model(settings, inputs, context);
  };
}

/// Convolution, batch norm where wanted, dropout and two dense layers; a few hundred parameters.
inline MakeModel small_network(bool batch_norm, const std::string& statistics = "auto") {
  std::vector<nn::LayerSettings> layers;
  const auto add = [&](nn::LayerSettings next) { layers.push_back(std::move(next)); };
  add(nn::convolution(4, {3}, {}, "bias = false"));
  if (batch_norm) add(nn::layer("batch_norm", "statistics = '" + statistics + "'"));
  add(nn::layer("relu"));
  add(nn::layer("flatten"));
  add(nn::dropout(0.25));
  add(nn::dense(8));
  add(nn::layer("tanh"));
  add(nn::dense(3));
  return network_of(std::move(layers));
}

inline Examples small_images(Index count = 23) {
  return random_examples(count, {.channels = 1, .height = 6, .width = 6}, 3);
}

/// How far two runs may lie apart.
struct Tolerance {
  double parameters = 0, statistics = 0, losses = 0;
};

/// Four times the spread of serial runs that only sum the examples of a micro-batch in another order: three of these
/// against the plain one. P ranks sum in yet another order, of the same number of terms.
inline Tolerance spread_of_permuted_sums(const Examples& examples, Training training) {
  training.ranks = 1;
  const auto plain = train(examples, training);
  Tolerance tolerance;
  for (Index rotation = 1; rotation <= 3; ++rotation) {
    training.rotation = rotation;
    const auto rotated = train(examples, training);
    const auto widen = [](double& to, double spread) { to = std::max(to, 4 * spread); };
    widen(tolerance.parameters, largest_difference(plain[0].parameters, rotated[0].parameters));
    widen(tolerance.statistics, largest_difference(plain[0].statistics, rotated[0].statistics));
    widen(tolerance.losses, largest_difference(plain[0].losses, rotated[0].losses));
  }
  return tolerance;
}

}  // namespace unisono::strategies
