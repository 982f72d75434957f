#include "figures/calibration.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::apply {
namespace {

constexpr std::size_t kExamples = 3 * Calibration::kBins, kSquares = kExamples + 1;

double square(double x) { return x * x; }

}  // namespace

void Calibration::add(double confidence, bool right, double squared_error) {
  const double place = std::ceil(confidence * kBins) - 1;  // NaN goes to the first bin, and makes its mean NaN
  const auto bin = static_cast<std::size_t>(place > 0 ? std::min(place, kBins - 1.0) : 0.0);
  sums_[3 * bin] += 1;
  sums_[3 * bin + 1] += confidence;
  sums_[3 * bin + 2] += right ? 1 : 0;
  sums_[kExamples] += 1;
  sums_[kSquares] += squared_error;
}

Calibration::Bin Calibration::bin(int b) const {
  const auto first = 3 * static_cast<std::size_t>(b);
  const double examples = sums_[first];
  if (examples == 0) return {};
  return {.examples = examples, .confidence = sums_[first + 1] / examples, .accuracy = sums_[first + 2] / examples};
}

double Calibration::expected_error() const {
  double error = 0;
  for (int b = 0; b < kBins; ++b) {
    const Bin one = bin(b);
    error += one.examples * std::abs(one.accuracy - one.confidence);
  }
  return sums_[kExamples] == 0 ? 0 : error / sums_[kExamples];
}

double Calibration::brier_score() const { return sums_[kExamples] == 0 ? 0 : sums_[kSquares] / sums_[kExamples]; }

double brier_part(View probabilities, std::int32_t label) {
  if (probabilities.size() <= 2) return square(static_cast<double>(probabilities.back()) - label);
  double sum = 0;
  for (std::size_t k = 0; k < probabilities.size(); ++k) {
    sum += square(static_cast<double>(probabilities[k]) - (k == static_cast<std::size_t>(label) ? 1 : 0));
  }
  return sum;
}

}  // namespace unisono::apply
