#include "losses/error_losses.hpp"

#include <fmt/format.h>

#include "losses/fits.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

kernels::ErrorLoss kind_of(LossKind loss) {
  if (loss == LossKind::mean_absolute_error) return kernels::ErrorLoss::absolute;
  return loss == LossKind::huber ? kernels::ErrorLoss::huber : kernels::ErrorLoss::squared;
}

}  // namespace

ErrorLosses::ErrorLosses(const NetworkSettings& settings, const Shape& out, const TargetShape& data)
    : spec_{.extent = out.extent, .loss = kind_of(settings.loss), .delta = static_cast<float>(settings.delta)} {
  const std::string_view name = name_of(settings.loss, kLossKinds);
  if (settings.label_smoothing != 0) {
    throw ConfigError(
        fmt::format("model.label_smoothing: {} has no labels to smooth; remove it, or use a cross-entropy loss", name));
  }
  if (data.target_size == 0) {
    throw ConfigError(
        fmt::format("model.loss: {} needs targets, but the data have none; use softmax_cross_entropy for labels, or "
                    "data.targets = \"features\" for an autoencoder",
                    name));
  }
  require_targets(name, out, data.target_size);
}

}  // namespace unisono::nn
