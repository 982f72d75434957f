#include "losses/softmax_cross_entropy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unisono/base/errors.hpp"

namespace unisono {

SoftmaxCrossEntropy::SoftmaxCrossEntropy(double smoothing, const Shape& out, const TargetShape& data)
    : classes_(out.extent.size()), smoothing_(static_cast<float>(smoothing)) {
  if (out.extent.height * out.extent.width > 1) {
    throw ConfigError(fmt::format(
        "model.loss: softmax_cross_entropy needs one output a class, but the last layer gives {}×{}×{}; end with a "
        "global_average_pool or a dense layer",
        out.extent.channels, out.extent.height, out.extent.width));
  }
  if (data.classes == 0) {
    throw ConfigError(
        "model.loss: softmax_cross_entropy needs labels, but the data have none; take mean_squared_error for targets, "
        "or data with labels");
  }
  if (classes_ != data.classes) {
    throw ConfigError(
        fmt::format("model.loss: the last layer has {} outputs but the data have {} classes; give it {} units",
                    classes_, data.classes, data.classes));
  }
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

}  // namespace unisono
