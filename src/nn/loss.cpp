#include "unisono/nn/loss.hpp"

#include <fmt/format.h>

#include "losses/error_losses.hpp"
#include "losses/fits.hpp"
#include "losses/multiclass_hinge.hpp"
#include "losses/sigmoid_cross_entropy.hpp"
#include "losses/softmax_cross_entropy.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"

namespace unisono::nn {

void require_targets(std::string_view loss, const Shape& out, Index target_size) {
  if (out.extent.size() == target_size) return;
  throw ConfigError(
      fmt::format("model.loss: {} needs one output per target value, but the last layer gives {} and a target has {}; "
                  "set the number of outputs to {}",
                  loss, text_of(out), target_size, target_size));
}

void require_output_for_each_class(const char* loss, const Shape& out, const TargetShape& data) {
  if (out.extent.height * out.extent.width > 1) {
    throw ConfigError(
        fmt::format("model.loss: {} needs one output per class, but the last layer gives {}×{}×{}; end with a "
                    "global_average_pool or a dense layer",
                    loss, out.extent.channels, out.extent.height, out.extent.width));
  }
  if (data.classes == 0) {
    throw ConfigError(fmt::format(
        "model.loss: {} needs labels, but the data have none; use mean_squared_error for targets, or data with labels",
        loss));
  }
  if (out.extent.size() != data.classes) {
    throw ConfigError(fmt::format("model.loss: the last layer has {} but the data have {}; give it {}",
                                  count_of(out.extent.size(), "output"), count_of(data.classes, "class"),
                                  count_of(data.classes, "unit")));
  }
}

std::unique_ptr<Loss> make_loss(const NetworkSettings& settings, const Shape& out, const TargetShape& data) {
  const double smoothing = settings.label_smoothing;
  switch (settings.loss) {
    case LossKind::softmax_cross_entropy:
      return std::make_unique<SoftmaxCrossEntropy>(smoothing, out, data);
    case LossKind::sigmoid_cross_entropy:
      return std::make_unique<SigmoidCrossEntropy>(smoothing, out, data);
    case LossKind::multiclass_hinge:
      if (smoothing == 0) return std::make_unique<MulticlassHinge>(out, data);
      throw ConfigError(
          "model.label_smoothing: multiclass_hinge does not support it; remove it, or use a cross-entropy loss");
    default:
      return std::make_unique<ErrorLosses>(settings, out, data);
  }
}

}  // namespace unisono::nn
