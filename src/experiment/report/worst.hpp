#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apply/trained_model.hpp"

namespace unisono::experiment {

/// An example that a model is most wrong about.
struct WorstExample {
  std::int64_t number = 0;      ///< in its split
  std::vector<float> answer;    ///< its class number, target or rating
  std::vector<float> outputs;   ///< the model's
  double error = 0;             ///< what the examples are ordered by
  std::vector<float> features;  ///< [C, H, W] as the model takes them; empty where examples are not a table
};

/// What `error` is: "1 − probability of the label", "distance from the target", …
std::string error_name(const TrainedModel& model);

/// Predicts a split with the ranks' one process, and returns the examples with the largest errors, the largest first.
/// \pre the split has answers
std::vector<WorstExample> worst_examples(TrainedModel& model, std::size_t count);

}  // namespace unisono::experiment
