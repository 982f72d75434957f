#pragma once

#include "unisono/nn/loss.hpp"

namespace unisono::nn {

/// Mean over an example's outputs of a loss of the error y − t: mean_squared_error, mean_absolute_error, huber.
class ErrorLosses final : public Loss {
 public:
  /// \throws ConfigError
  ErrorLosses(const NetworkSettings& settings, const Shape& out, const TargetShape& data);

  void apply(kernels::Backend& backend, Index batch, View outputs, const Targets& targets,
             const kernels::LossScale& scale, MutableView doutputs, kernels::LossSums& sums) const override {
    backend.error_loss(spec_, batch, outputs, targets.values, scale, doutputs, sums);
  }
  void to_predictions(MutableView) const override {}
  Index prediction_size() const override { return spec_.extent.size(); }
  bool counts_hits() const override { return false; }
  Index classes() const override { return 0; }

 private:
  kernels::ErrorSpec spec_;
};

}  // namespace unisono::nn
