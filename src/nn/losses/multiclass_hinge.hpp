#pragma once

#include "losses/fits.hpp"

namespace unisono::nn {

/// max(0, 1 + max_{k ≠ label} y_k − y_label): the multiclass support vector machine of Crammer & Singer, JMLR 2001.
/// Predictions are the scores themselves, which are no probabilities.
class MulticlassHinge final : public Loss {
 public:
  /// \throws ConfigError
  MulticlassHinge(const Shape& out, const TargetShape& data) : classes_(out.extent.size()) {
    require_output_for_each_class("multiclass_hinge", out, data);
  }

  void apply(kernels::Backend& backend, Index batch, View outputs, const Targets& targets,
             const kernels::LossScale& scale, MutableView doutputs, kernels::LossSums& sums) const override {
    backend.multiclass_hinge(classes_, batch, outputs, targets.labels, scale, doutputs, sums);
  }
  void to_predictions(MutableView) const override {}
  Index prediction_size() const override { return classes_; }
  bool counts_hits() const override { return true; }
  bool gives_probabilities() const override { return false; }
  Index classes() const override { return classes_; }

 private:
  Index classes_;
};

}  // namespace unisono::nn
