#include "losses/sigmoid_cross_entropy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "losses/fits.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

/// \throws DataError for a target outside [0, 1], for which the loss has no lower bound
void require_probabilities(View targets) {
  const auto wrong =
      std::find_if(targets.begin(), targets.end(), [](float target) { return !(target >= 0 && target <= 1); });
  if (wrong == targets.end()) return;
  throw DataError(
      fmt::format("model.loss: sigmoid_cross_entropy needs targets from 0 to 1, but one is {}; scale them, remove "
                  "data.normalization if the features are the targets, or use mean_squared_error",
                  *wrong));
}

}  // namespace

SigmoidCrossEntropy::SigmoidCrossEntropy(double smoothing, const Shape& out, const TargetShape& data)
    : extent_(out.extent), labels_(data.target_size == 0), smoothing_(static_cast<float>(smoothing)) {
  if (labels_ && data.classes == 0) {
    throw ConfigError("model.loss: sigmoid_cross_entropy needs targets or labels, but the data have neither");
  }
  if (is_binary() && data.classes <= 2) return;
  if (is_binary()) {
    throw ConfigError(
        fmt::format("model.loss: sigmoid_cross_entropy with one output tells two classes apart, but the data have {}; "
                    "give the last layer {} units, one for each class",
                    data.classes, data.classes));
  }
  require_targets("sigmoid_cross_entropy", out, labels_ ? data.classes : data.target_size);
}

void SigmoidCrossEntropy::apply(kernels::Backend& backend, Index batch, View outputs, const Targets& targets,
                                const kernels::LossScale& scale, MutableView doutputs, kernels::LossSums& sums) const {
  if (!labels_) require_probabilities(targets.values);
  backend.sigmoid_cross_entropy(extent_, batch, outputs, labels_ ? targets.labels : std::span<const std::int32_t>{},
                                labels_ ? View{} : targets.values, smoothing_, scale, doutputs, sums);
}

void SigmoidCrossEntropy::to_predictions(MutableView outputs) const {
  const auto probability = [](float output) { return 1 / (1 + std::exp(-static_cast<double>(output))); };
  if (!is_binary()) {
    for (float& value : outputs) value = static_cast<float>(probability(value));
    return;
  }
  // From the last example to the first: example i's two predictions overwrite no output that is still to be read.
  for (std::size_t i = outputs.size() / 2; i-- > 0;) {
    const double one = probability(outputs[i]), zero = probability(-outputs[i]);
    outputs[2 * i] = static_cast<float>(zero);
    outputs[2 * i + 1] = static_cast<float>(one);
  }
}

}  // namespace unisono::nn
