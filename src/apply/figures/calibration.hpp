#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "unisono/tensor/allocator.hpp"

namespace unisono::apply {

/// Compares predicted probabilities with how often the predictions are right.
///   Confidence: the probability of the predicted class. Expected calibration error: Σ_b n_b/n · |accuracy_b −
///   confidence_b| over 15 bins of equal width, ((b − 1)/15, b/15] (Guo et al., ICML 2017).
///   Brier score: mean of (p − y)² for two classes, of Σ_k (p_k − y_k)² for more (Brier 1950).
class Calibration {
 public:
  static constexpr int kBins = 15;

  /// Adds an example. \param squared_error its part of the Brier score
  void add(double confidence, bool right, double squared_error);
  /// All sums in one vector, for an allreduce over ranks.
  std::span<double> sums() { return sums_; }

  struct Bin {
    double examples = 0, confidence = 0, accuracy = 0;  ///< the last two: means; 0 without examples
  };
  Bin bin(int b) const;
  double expected_error() const;
  double brier_score() const;

 private:
  std::array<double, 3 * kBins + 2> sums_{};  ///< per bin examples, confidence, hits; all examples, squared errors
};

/// An example's part of the Brier score. \param probabilities [K]; or one value: the probability of the second of two
/// classes
double brier_part(View probabilities, std::int32_t label);

}  // namespace unisono::apply
