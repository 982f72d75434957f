#pragma once

#include "unisono/nn/loss.hpp"

namespace unisono {

/// Mean over the outputs of −t log σ(y) − (1 − t) log(1 − σ(y)): independent yes-or-no questions.
/// Labels are taken as one-hot targets. Smoothing draws each target towards ½.
/// A hit: the label's output is the largest; with targets, every output lies on its target's side of ½.
class SigmoidCrossEntropy final : public Loss {
 public:
  /// \throws ConfigError
  SigmoidCrossEntropy(double smoothing, const Shape& out, const TargetShape& data);

  void apply(Backend& backend, Index batch, View outputs, const Targets& targets, float scale, MutableView doutputs,
             LossSums& sums) const override;
  void to_predictions(MutableView outputs) const override;
  bool counts_hits() const override { return true; }
  Index classes() const override { return labels_ ? extent_.size() : 0; }

 private:
  Extent extent_;
  bool labels_;  ///< else targets
  float smoothing_;
};

}  // namespace unisono
