#pragma once

#include "unisono/nn/loss.hpp"

namespace unisono::nn {

/// Mean over the outputs of −t log σ(y) − (1 − t) log(1 − σ(y)): independent yes-or-no questions.
/// Labels become one-hot targets; with two classes and one output, the label (0 or 1) is its target. Smoothing moves
/// each target towards ½. A hit: the label's output is the largest; with targets, or one output, every output lies on
/// its target's side of ½.
class SigmoidCrossEntropy final : public Loss {
 public:
  /// \throws ConfigError
  SigmoidCrossEntropy(double smoothing, const Shape& out, const TargetShape& data);

  void apply(kernels::Backend& backend, Index batch, View outputs, const Targets& targets,
             const kernels::LossScale& scale, MutableView doutputs, kernels::LossSums& sums) const override;
  /// For two classes with one output: the probabilities of both.
  void to_predictions(MutableView outputs) const override;
  Index prediction_size() const override { return is_binary() ? 2 : extent_.size(); }
  bool counts_hits() const override { return true; }
  Index classes() const override { return labels_ ? prediction_size() : 0; }

 private:
  /// One output for labels of two classes.
  bool is_binary() const { return labels_ && extent_.size() == 1; }

  kernels::Extent extent_;
  bool labels_;  ///< else targets
  float smoothing_;
};

}  // namespace unisono::nn
