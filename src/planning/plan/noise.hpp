#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::planning {

/// How much the gradients of examples differ, at a trained model: what a step of several examples is worth.
/// McCandlish et al., "An empirical model of large-batch training", 2018.
struct GradientNoise {
  std::string checkpoint;
  std::int64_t step = 0;
  double squared_norm = 0;  ///< |G|² of the mean gradient over all examples; at most 0 where the noise hides it
  double variance = 0;      ///< tr Σ of a single example's gradient
  double examples = 0;      ///< from which it is known

  /// Examples of a step whose gradient has as much noise as signal: tr Σ / |G|². Infinite where the noise of all
  /// examples hides |G|².
  double scale() const;
  /// What a step of so many examples is worth for each of them, of what a small one is: 1 / (1 + batch / scale).
  double worth(double batch) const;
  std::string text(double batch) const;
  nlohmann::ordered_json json() const;
};

/// From the mean of the squared norms of gradients over `small` examples each, and of their mean's over `large`. Both
/// have the same expectation, but for the noise: |G|² + tr Σ / examples.
GradientNoise noise_of(double small_norm, double small, double large_norm, double large);

/// Measures it at a run's newest checkpoint, on its training examples. Collective; all ranks get the result.
/// \throws CheckpointError, DataError
GradientNoise measure_noise(comm::Communicator& world, const settings::Config& config, const std::string& run,
                            Log& log);

}  // namespace unisono::planning
