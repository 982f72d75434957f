#include "losses/softmax_cross_entropy.hpp"

#include <algorithm>
#include <cmath>

#include "losses/fits.hpp"

namespace unisono::nn {

SoftmaxCrossEntropy::SoftmaxCrossEntropy(double smoothing, const Shape& out, const TargetShape& data)
    : classes_(out.extent.size()), smoothing_(static_cast<float>(smoothing)) {
  require_output_for_each_class("softmax_cross_entropy", out, data);
}

void SoftmaxCrossEntropy::to_predictions(MutableView outputs) const {
  const auto classes = static_cast<std::size_t>(classes_);
  for (std::size_t first = 0; first < outputs.size(); first += classes) {
    const MutableView row = outputs.subspan(first, classes);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float value : row) sum += std::exp(value - largest);
    for (float& value : row) value = static_cast<float>(std::exp(value - largest) / sum);
  }
}

}  // namespace unisono::nn
