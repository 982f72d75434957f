#pragma once

#include "unisono/nn/loss.hpp"

namespace unisono::nn {

/// −Σ_k q_k log p_k with p = softmax(outputs), q = (1 − s) onehot(label) + s/K.
/// Label smoothing s: Szegedy et al., CVPR 2016.
class SoftmaxCrossEntropy final : public Loss {
 public:
  SoftmaxCrossEntropy(double smoothing, const Shape& out, const TargetShape& data);

  void apply(kernels::Backend& backend, Index batch, View outputs, const Targets& targets,
             const kernels::LossScale& scale, MutableView doutputs, kernels::LossSums& sums) const override {
    backend.softmax_cross_entropy(classes_, batch, outputs, targets.labels, smoothing_, scale, doutputs, sums);
  }
  void to_predictions(MutableView outputs) const override;
  Index prediction_size() const override { return classes_; }
  bool counts_hits() const override { return true; }
  Index classes() const override { return classes_; }

 private:
  Index classes_;
  float smoothing_;
};

}  // namespace unisono::nn
