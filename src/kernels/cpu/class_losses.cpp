#include <array>
#include <cassert>
#include <cmath>
#include <vector>

#include "cpu/chunks.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/lane_weights.hpp"

// Losses of scores, one for each class, against the label.

namespace unisono::kernels::cpu {
namespace {

/// Some lanes of a batch of scores, with their labels.
struct LabelGroup {
  Columns columns;
  Index at = 0;  ///< where in the scores it begins
  std::array<std::int32_t, Lanes::kVector> labels{};
  LaneWeights weights;
};

/// A batch of scores.
struct Scores {
  Index classes, batch;
  std::span<const std::int32_t> labels;
  View weights;
};

/// Calls work(group) for every Lanes::kVector lanes, or the only 8, and adds the LossSums that it gives in their order.
template <typename Work>
void add_groups(int threads, const Scores& scores, LossSums& sums, const Work& work) {
  const Lanes lanes(scores.batch);
  assert(static_cast<Index>(scores.labels.size()) == scores.batch);
  const Index size = std::min(lanes.width, Lanes::kVector), groups = lanes.width / size;
  std::vector<LossSums> parts(static_cast<std::size_t>(lanes.blocks * groups));
  // A few examples of a few classes take less time than waking a thread.
  parallel_for(scores.classes * scores.batch < kChunk ? 1 : threads, lanes.blocks * groups, [&](Index i) {
    const Index block = i / groups, lane = i % groups * size, example = block * lanes.width + lane;
    const Index used = std::clamp<Index>(scores.batch - example, 0, size);
    LabelGroup group{.columns = {scores.classes, size, lanes.width, used},
                     .at = block * scores.classes * lanes.width + lane,
                     .weights = LaneWeights(scores.weights, used > 0 ? example : 0, used)};
    for (Index n = 0; n < used; ++n) {
      std::int32_t& label = group.labels[static_cast<std::size_t>(n)];
      label = scores.labels[static_cast<std::size_t>(example + n)];
      assert(label >= 0 && label < scores.classes);
    }
    parts[static_cast<std::size_t>(i)] = work(group);
  });
  for (const LossSums& part : parts) {
    sums.loss += part.loss;
    sums.correct += part.correct;
    sums.correct_top5 += part.correct_top5;
  }
  sums.examples += scores.batch;
}

/// Adds the loss and the hits of one lane.
void add_lane(const LabelGroup& group, Index lane, double loss, std::int32_t before, LossSums& sums) {
  sums.loss += group.weights.any() ? static_cast<double>(group.weights.values()[lane]) * loss : loss;
  sums.correct += before == 0 ? 1 : 0;
  sums.correct_top5 += before < 5 ? 1 : 0;
}

/// loss = log Σ exp(z − m) − (1 − smoothing) (z_label − m) − smoothing / K · Σ (z − m), m the largest logit.
LossSums softmax_losses(const LabelGroup& group, const SoftmaxSums& lanes, double smoothing) {
  LossSums sums;
  for (Index lane = 0; lane < group.columns.used; ++lane) {
    double target = (1 - smoothing) * static_cast<double>(lanes.label[lane]);
    if (smoothing != 0) target += smoothing / static_cast<double>(group.columns.elements) * lanes.logits[lane];
    add_lane(group, lane, std::log(lanes.exponentials[lane]) - target, lanes.before[lane], sums);
  }
  return sums;
}

LossSums hinge_losses(const LabelGroup& group, const HingeSums& lanes) {
  LossSums sums;
  for (Index lane = 0; lane < group.columns.used; ++lane) {
    const double margin = static_cast<double>(lanes.margin[lane]);
    add_lane(group, lane, margin <= 0 ? 0 : margin, lanes.before[lane], sums);  // a NaN stays NaN
  }
  return sums;
}

}  // namespace

void CpuBackend::softmax_cross_entropy(Index classes, Index batch, View logits, std::span<const std::int32_t> labels,
                                       float smoothing, const LossScale& scale, MutableView dlogits, LossSums& sums) {
  add_groups(settings_.threads, {classes, batch, labels, scale.weights}, sums, [&](const LabelGroup& group) {
    float* const d = dlogits.empty() ? nullptr : dlogits.data() + group.at;
    SoftmaxSums lanes;
    loops_.loss.softmax_sums(group.columns, logits.data() + group.at, group.labels.data(), lanes, d);
    if (d != nullptr) {
      loops_.loss.softmax_gradient(group.columns, group.labels.data(), lanes, smoothing, scale.factor, d);
      if (group.weights.any()) loops_.loss.weigh(group.columns, group.weights.values(), d);
    }
    return softmax_losses(group, lanes, static_cast<double>(smoothing));
  });
}

void CpuBackend::multiclass_hinge(Index classes, Index batch, View scores, std::span<const std::int32_t> labels,
                                  const LossScale& scale, MutableView dscores, LossSums& sums) {
  add_groups(settings_.threads, {classes, batch, labels, scale.weights}, sums, [&](const LabelGroup& group) {
    HingeSums lanes;
    loops_.loss.hinge_sums(group.columns, scores.data() + group.at, group.labels.data(), lanes);
    if (!dscores.empty()) {
      float* const d = dscores.data() + group.at;
      loops_.loss.hinge_gradient(group.columns, group.labels.data(), lanes, scale.factor, d);
      if (group.weights.any()) loops_.loss.weigh(group.columns, group.weights.values(), d);
    }
    return hinge_losses(group, lanes);
  });
}

}  // namespace unisono::kernels::cpu
