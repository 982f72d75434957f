#pragma once

#include "unisono/nn/loss.hpp"

namespace unisono {

/// Mean over an example's outputs of (y − t)².
class MeanSquaredError final : public Loss {
 public:
  /// \throws ConfigError
  MeanSquaredError(const Shape& out, const TargetShape& data);

  void apply(Backend& backend, Index batch, View outputs, const Targets& targets, float scale, MutableView doutputs,
             LossSums& sums) const override {
    backend.mean_squared_error(extent_, batch, outputs, targets.values, scale, doutputs, sums);
  }
  void to_predictions(MutableView) const override {}
  bool counts_hits() const override { return false; }
  Index classes() const override { return 0; }

 private:
  Extent extent_;
};

}  // namespace unisono
