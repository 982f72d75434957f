#include "unisono/nn/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

/// −Σ_k q_k log p_k with p = softmax(outputs), q = (1 − s) onehot(label) + s/K.
/// Label smoothing s: Szegedy et al., CVPR 2016.
class SoftmaxCrossEntropy final : public Loss {
 public:
  SoftmaxCrossEntropy(double smoothing, const Shape& out, const TargetShape& data);

  void apply(Backend& backend, Index batch, View outputs, const Targets& targets, float scale, MutableView doutputs,
             LossSums& sums) const override {
    backend.softmax_cross_entropy(classes_, batch, outputs, targets.labels, smoothing_, scale, doutputs, sums);
  }
  void to_predictions(MutableView outputs) const override;
  bool counts_hits() const override { return true; }
  Index classes() const override { return classes_; }

 private:
  Index classes_;
  float smoothing_;
};

SoftmaxCrossEntropy::SoftmaxCrossEntropy(double smoothing, const Shape& out, const TargetShape& data)
    : classes_(out.extent.size()), smoothing_(static_cast<float>(smoothing)) {
  if (out.extent.height * out.extent.width > 1) {
    throw ConfigError(fmt::format(
        "model.loss: softmax_cross_entropy needs one output a class, but the last layer gives {}×{}×{}; end with a "
        "global_average_pool or a dense layer",
        out.extent.channels, out.extent.height, out.extent.width));
  }
  if (data.classes == 0) {
    throw ConfigError(
        "model.loss: softmax_cross_entropy needs labels, but the data have none; take mean_squared_error for targets, "
        "or data with labels");
  }
  if (classes_ != data.classes) {
    throw ConfigError(
        fmt::format("model.loss: the last layer has {} outputs but the data have {} classes; give it {} units",
                    classes_, data.classes, data.classes));
  }
}

void SoftmaxCrossEntropy::to_predictions(MutableView outputs) const {
  const auto classes = static_cast<std::size_t>(classes_);
  for (std::size_t first = 0; first < outputs.size(); first += classes) {
    const MutableView row = outputs.subspan(first, classes);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float value : row) sum += std::exp(value - largest);
    for (float& value : row) value = static_cast<float>(std::exp(value - largest) / sum);
  }
}

/// \throws ConfigError unless each output has a target of its own
void require_targets(const char* loss, const Shape& out, Index target_size) {
  if (out.extent.size() == target_size) return;
  throw ConfigError(fmt::format(
      "model.loss: {} compares output by output, but the last layer gives {} and a target has {} values; make the last "
      "layer's outputs {}",
      loss, text_of(out), target_size, target_size));
}

/// Mean over the outputs of −t log σ(y) − (1 − t) log(1 − σ(y)): independent yes-or-no questions.
/// Labels are taken as one-hot targets. Smoothing draws each target towards ½.
class SigmoidCrossEntropy final : public Loss {
 public:
  SigmoidCrossEntropy(double smoothing, const Shape& out, const TargetShape& data)
      : extent_(out.extent), labels_(data.target_size == 0), smoothing_(static_cast<float>(smoothing)) {
    if (labels_ && data.classes == 0) {
      throw ConfigError("model.loss: sigmoid_cross_entropy needs targets or labels, but the data have neither");
    }
    require_targets("sigmoid_cross_entropy", out, labels_ ? data.classes : data.target_size);
  }

  void apply(Backend& backend, Index batch, View outputs, const Targets& targets, float scale, MutableView doutputs,
             LossSums& sums) const override;
  void to_predictions(MutableView outputs) const override {
    for (float& value : outputs) value = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(value))));
  }
  bool counts_hits() const override { return true; }
  Index classes() const override { return labels_ ? extent_.size() : 0; }

 private:
  std::vector<float> one_hot(std::span<const std::int32_t> labels) const;

  Extent extent_;
  bool labels_;
  float smoothing_;
};

/// How many outputs come before the label's: larger ones, and equal ones of smaller number. A NaN comes before all.
std::int64_t rank_of(std::size_t label, View outputs) {
  std::int64_t before = 0;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const bool behind = outputs[k] < outputs[label] || (outputs[k] == outputs[label] && k >= label);
    before += behind ? 0 : 1;
  }
  return before;
}

/// Whether every output lies on its target's side: σ(y) > ½ where t > ½.
bool all_on_their_side(View outputs, View targets) {
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!(targets[k] > 0.5F ? outputs[k] > 0 : outputs[k] <= 0)) return false;
  }
  return true;
}

std::vector<float> SigmoidCrossEntropy::one_hot(std::span<const std::int32_t> labels) const {
  const auto outputs = static_cast<std::size_t>(extent_.size());
  std::vector<float> targets(labels.size() * outputs, 0.0F);
  for (std::size_t i = 0; i < labels.size(); ++i) targets[i * outputs + static_cast<std::size_t>(labels[i])] = 1;
  return targets;
}

// A hit: the label's output is the largest; with targets, all outputs are on their sides.
void SigmoidCrossEntropy::apply(Backend& backend, Index batch, View outputs, const Targets& targets, float scale,
                                MutableView doutputs, LossSums& sums) const {
  const std::vector<float> coded = labels_ ? one_hot(targets.labels) : std::vector<float>{};
  const View wanted = labels_ ? View(coded) : targets.values;
  backend.sigmoid_cross_entropy(extent_, batch, outputs, wanted, smoothing_, scale, doutputs, sums);

  const auto size = static_cast<std::size_t>(extent_.size());
  std::vector<float> rows(static_cast<std::size_t>(batch) * size);
  backend.store(extent_, batch, outputs, rows);
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch); ++i) {
    const View row = View(rows).subspan(i * size, size);
    if (labels_) {
      const std::int64_t before = rank_of(static_cast<std::size_t>(targets.labels[i]), row);
      sums.correct += before == 0 ? 1 : 0;
      sums.correct_top5 += before < 5 ? 1 : 0;
    } else {
      sums.correct += all_on_their_side(row, wanted.subspan(i * size, size)) ? 1 : 0;
    }
  }
}

/// Mean over an example's outputs of (y − t)².
class MeanSquaredError final : public Loss {
 public:
  MeanSquaredError(const Shape& out, const TargetShape& data) : extent_(out.extent) {
    if (data.target_size == 0) {
      throw ConfigError(
          "model.loss: mean_squared_error needs targets, but the data have none; take softmax_cross_entropy for "
          "labels, or data.targets = \"features\" for an autoencoder");
    }
    require_targets("mean_squared_error", out, data.target_size);
  }

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

}  // namespace

std::unique_ptr<Loss> make_loss(const NetworkSettings& settings, const Shape& out, const TargetShape& data) {
  const double smoothing = settings.label_smoothing;
  if (settings.loss == "softmax_cross_entropy") return std::make_unique<SoftmaxCrossEntropy>(smoothing, out, data);
  if (settings.loss == "sigmoid_cross_entropy") return std::make_unique<SigmoidCrossEntropy>(smoothing, out, data);
  if (settings.loss == "mean_squared_error") {
    if (smoothing != 0) {
      throw ConfigError(
          "model.label_smoothing: mean_squared_error has no labels to smooth; leave it out, or take a "
          "cross entropy");
    }
    return std::make_unique<MeanSquaredError>(out, data);
  }
  throw ConfigError("model.loss: there is no loss '" + settings.loss + "'");
}

}  // namespace unisono
