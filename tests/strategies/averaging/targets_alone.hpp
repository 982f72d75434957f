#pragma once

#include "../least_squares.hpp"

// Averaging that can be worked out by hand.

namespace unisono::strategies {

/// Features are zero, so that only the bias b learns. With rate 1/4 a step is b ← (b + mean target) / 2.
inline Training targets_alone(const std::string& keys, int ranks, Index batch_size) {
  return {.model = least_squares(),
          .strategy = strategy_of("kind = 'averaging', " + keys),
          .optimizer = {.kind = "sgd", .learning_rate = 0.25},
          .ranks = ranks,
          .batch_size = batch_size,
          .shuffle = false};
}

inline Examples with_targets(const std::vector<float>& targets) {
  return {.shape = {}, .features = std::vector<float>(targets.size()), .targets = targets};
}

/// The steps after which all ranks held the same model.
inline std::vector<std::int64_t> consistent_steps(const Outcome& outcome) {
  std::vector<std::int64_t> steps;
  for (const StepRecord& record : outcome.records) {
    if (record.consistent) steps.push_back(record.step);
  }
  return steps;
}

}  // namespace unisono::strategies
