#include "losses/mean_squared_error.hpp"

#include "losses/require_targets.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {

MeanSquaredError::MeanSquaredError(const Shape& out, const TargetShape& data) : extent_(out.extent) {
  if (data.target_size == 0) {
    throw ConfigError(
        "model.loss: mean_squared_error needs targets, but the data have none; take softmax_cross_entropy for labels, "
        "or data.targets = \"features\" for an autoencoder");
  }
  require_targets("mean_squared_error", out, data.target_size);
}

}  // namespace unisono
