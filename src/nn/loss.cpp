#include "unisono/nn/loss.hpp"

#include <fmt/format.h>

#include "losses/mean_squared_error.hpp"
#include "losses/require_targets.hpp"
#include "losses/sigmoid_cross_entropy.hpp"
#include "losses/softmax_cross_entropy.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {

void require_targets(const char* loss, const Shape& out, Index target_size) {
  if (out.extent.size() == target_size) return;
  throw ConfigError(fmt::format(
      "model.loss: {} compares output by output, but the last layer gives {} and a target has {} values; make the last "
      "layer's outputs {}",
      loss, text_of(out), target_size, target_size));
}

std::unique_ptr<Loss> make_loss(const NetworkSettings& settings, const Shape& out, const TargetShape& data) {
  const double smoothing = settings.label_smoothing;
  if (settings.loss == "softmax_cross_entropy") return std::make_unique<SoftmaxCrossEntropy>(smoothing, out, data);
  if (settings.loss == "sigmoid_cross_entropy") return std::make_unique<SigmoidCrossEntropy>(smoothing, out, data);
  if (settings.loss == "mean_squared_error") {
    if (smoothing != 0) {
      throw ConfigError(
          "model.label_smoothing: mean_squared_error has no labels to smooth; leave it out, or take a "
          "cross entropy");
    }
    return std::make_unique<MeanSquaredError>(out, data);
  }
  throw ConfigError("model.loss: there is no loss '" + settings.loss + "'");
}

}  // namespace unisono
