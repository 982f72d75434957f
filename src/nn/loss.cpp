#include "unisono/nn/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

/// \throws ConfigError unless each output has a target of its own; `loss` for the message
void require_targets(std::string_view loss, const Shape& out, Index target_size) {
  if (out.extent.size() == target_size) return;
  throw ConfigError(
      fmt::format("model.loss: {} needs one output per target value, but the last layer gives {} and a target has {}; "
                  "set the number of outputs to {}",
                  loss, text_of(out), target_size, target_size));
}

/// \throws ConfigError unless there is an output for each class of the labels; `loss` for the message
void require_output_for_each_class(const char* loss, const Shape& out, const TargetShape& data) {
  if (out.extent.height * out.extent.width > 1) {
    throw ConfigError(
        fmt::format("model.loss: {} needs one output per class, but the last layer gives {}×{}×{}; end with a "
                    "global_average_pool or a dense layer",
                    loss, out.extent.channels, out.extent.height, out.extent.width));
  }
  if (data.classes == 0) {
    throw ConfigError(
        fmt::format("model.loss: {} needs labels, but the data have none; use mean_squared_error for targets, "
                    "sigmoid_cross_entropy "
                    "for several labels of an example (targets of 0 and 1), or data with labels",
                    loss));
  }
  if (out.extent.size() != data.classes) {
    throw ConfigError(fmt::format("model.loss: the last layer has {} but the data have {}; give it {}",
                                  count_of(out.extent.size(), "output"), count_of(data.classes, "class"),
                                  count_of(data.classes, "unit")));
  }
}

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

kernels::ErrorLoss kind_of(LossKind loss) {
  if (loss == LossKind::mean_absolute_error) return kernels::ErrorLoss::absolute;
  return loss == LossKind::huber ? kernels::ErrorLoss::huber : kernels::ErrorLoss::squared;
}

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
    backend.multiclass_hinge(classes_, batch, outputs, targets.labels.first, scale, doutputs, sums);
  }
  void to_predictions(MutableView) const override {}
  Index prediction_size() const override { return classes_; }
  bool counts_hits() const override { return true; }
  bool gives_probabilities() const override { return false; }
  Index classes() const override { return classes_; }

 private:
  Index classes_;
};

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

/// \throws DataError for a target outside [0, 1], for which the loss has no lower bound
void require_probabilities(View targets) {
  const auto wrong =
      std::find_if(targets.begin(), targets.end(), [](float target) { return !(target >= 0 && target <= 1); });
  if (wrong == targets.end()) return;
  throw DataError(
      fmt::format("model.loss: sigmoid_cross_entropy needs targets from 0 to 1, but one is {}; scale them, remove "
                  "data.normalization if the features are the targets, or use mean_squared_error",
                  *wrong));
}

SigmoidCrossEntropy::SigmoidCrossEntropy(double smoothing, const Shape& out, const TargetShape& data)
    : extent_(out.extent), labels_(data.target_size == 0), smoothing_(static_cast<float>(smoothing)) {
  if (labels_ && data.classes == 0) {
    throw ConfigError("model.loss: sigmoid_cross_entropy needs targets or labels, but the data have neither");
  }
  if (is_binary() && data.classes <= 2) return;
  if (is_binary()) {
    throw ConfigError(
        fmt::format("model.loss: sigmoid_cross_entropy with one output tells two classes apart, but the data have {}; "
                    "give the last layer {} units, one for each class",
                    data.classes, data.classes));
  }
  require_targets("sigmoid_cross_entropy", out, labels_ ? data.classes : data.target_size);
}

void SigmoidCrossEntropy::apply(kernels::Backend& backend, Index batch, View outputs, const Targets& targets,
                                const kernels::LossScale& scale, MutableView doutputs, kernels::LossSums& sums) const {
  if (!labels_) require_probabilities(targets.values);
  backend.sigmoid_cross_entropy(extent_, batch, outputs, labels_ ? targets.labels : kernels::Labels{},
                                labels_ ? View{} : targets.values, smoothing_, scale, doutputs, sums);
}

void SigmoidCrossEntropy::to_predictions(MutableView outputs) const {
  const auto probability = [](float output) { return 1 / (1 + std::exp(-static_cast<double>(output))); };
  if (!is_binary()) {
    for (float& value : outputs) value = static_cast<float>(probability(value));
    return;
  }
  // From the last example to the first: example i's two predictions overwrite no output that is still to be read.
  for (std::size_t i = outputs.size() / 2; i-- > 0;) {
    const double one = probability(outputs[i]), zero = probability(-outputs[i]);
    outputs[2 * i] = static_cast<float>(zero);
    outputs[2 * i + 1] = static_cast<float>(one);
  }
}

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

SoftmaxCrossEntropy::SoftmaxCrossEntropy(double smoothing, const Shape& out, const TargetShape& data)
    : classes_(out.extent.size()), smoothing_(static_cast<float>(smoothing)) {
  require_output_for_each_class("softmax_cross_entropy", out, data);
}

void SoftmaxCrossEntropy::to_predictions(MutableView outputs) const {
  const auto classes = static_cast<std::size_t>(classes_);
  std::vector<double> powers(classes);
  for (std::size_t first = 0; first < outputs.size(); first += classes) {
    const MutableView row = outputs.subspan(first, classes);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) sum += powers[k] = std::exp(row[k] - largest);
    for (std::size_t k = 0; k < classes; ++k) row[k] = static_cast<float>(powers[k] / sum);
  }
}

/// The loss that the unembedding layer of a language model computes itself.
class TokenCrossEntropy final : public Loss {
 public:
  explicit TokenCrossEntropy(Index vocabulary) : vocabulary_(vocabulary) {}

  void apply(kernels::Backend&, Index, View, const Targets&, const kernels::LossScale&, MutableView,
             kernels::LossSums&) const override {
    throw std::logic_error("the last layer of a language model computes its loss");
  }
  void to_predictions(MutableView) const override {}
  Index prediction_size() const override { return vocabulary_; }
  bool counts_hits() const override { return true; }
  bool gives_probabilities() const override { return false; }
  Index classes() const override { return 0; }

 private:
  Index vocabulary_;
};

}  // namespace

std::unique_ptr<Loss> make_loss(const NetworkSettings& settings, const Shape& out, const TargetShape& data) {
  const double smoothing = settings.label_smoothing;
  if (data.vocabulary > 0) {
    if (settings.loss == LossKind::softmax_cross_entropy) return std::make_unique<TokenCrossEntropy>(data.vocabulary);
    throw ConfigError("model.loss: the loss of a language model is softmax_cross_entropy; remove the key");
  }
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
