#include "losses/sigmoid_cross_entropy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "losses/require_targets.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {

namespace {

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

/// \throws DataError for a target outside [0, 1], for which the loss has no lower bound
void require_probabilities(View targets) {
  const auto wrong =
      std::find_if(targets.begin(), targets.end(), [](float target) { return !(target >= 0 && target <= 1); });
  if (wrong == targets.end()) return;
  throw DataError(
      fmt::format("model.loss: sigmoid_cross_entropy needs targets from 0 to 1, but one is {}; scale them, leave "
                  "data.normalization out where the features are the targets, or take mean_squared_error",
                  *wrong));
}

}  // namespace

SigmoidCrossEntropy::SigmoidCrossEntropy(double smoothing, const Shape& out, const TargetShape& data)
    : extent_(out.extent), labels_(data.target_size == 0), smoothing_(static_cast<float>(smoothing)) {
  if (labels_ && data.classes == 0) {
    throw ConfigError("model.loss: sigmoid_cross_entropy needs targets or labels, but the data have neither");
  }
  require_targets("sigmoid_cross_entropy", out, labels_ ? data.classes : data.target_size);
}

std::vector<float> SigmoidCrossEntropy::one_hot(std::span<const std::int32_t> labels) const {
  const auto outputs = static_cast<std::size_t>(extent_.size());
  std::vector<float> targets(labels.size() * outputs, 0.0F);
  for (std::size_t i = 0; i < labels.size(); ++i) targets[i * outputs + static_cast<std::size_t>(labels[i])] = 1;
  return targets;
}

void SigmoidCrossEntropy::apply(Backend& backend, Index batch, View outputs, const Targets& targets, float scale,
                                MutableView doutputs, LossSums& sums) const {
  if (!labels_) require_probabilities(targets.values);
  const std::vector<float> coded = labels_ ? one_hot(targets.labels) : std::vector<float>{};
  backend.sigmoid_cross_entropy(extent_, batch, outputs, labels_ ? View(coded) : targets.values, smoothing_, scale,
                                doutputs, sums);
  count_hits(backend, batch, outputs, targets, sums);
}

void SigmoidCrossEntropy::count_hits(Backend& backend, Index batch, View outputs, const Targets& targets,
                                     LossSums& sums) const {
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
      sums.correct += all_on_their_side(row, targets.values.subspan(i * size, size)) ? 1 : 0;
    }
  }
}

void SigmoidCrossEntropy::to_predictions(MutableView outputs) const {
  for (float& value : outputs) value = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(value))));
}

}  // namespace unisono
