#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "cpu/lanes.hpp"
#include "cpu/loop_team.hpp"
#include "cpu/loops.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cpu {
namespace {

/// The examples' weights of some lanes; where there are none, nothing is copied.
class LaneWeights {
 public:
  /// \param weights of all examples, or empty \param first the example of the first lane
  LaneWeights(View weights, Index first, Index used) : any_(!weights.empty()) {
    if (!any_) return;
    values_.fill(0.0F);
    std::copy_n(weights.begin() + first, used, values_.begin());
  }

  bool any() const { return any_; }
  /// [kMaximumLanes], zeros in lanes without an example; null where there are no weights.
  const float* values() const { return any_ ? values_.data() : nullptr; }

 private:
  bool any_;
  std::array<float, static_cast<std::size_t>(kMaximumLanes)> values_;
};

/// A tile of activations with its targets, which are transposed to the activations' order.
class TargetTile {
 public:
  /// \param targets [batch][size] of all examples
  TargetTile(const Loops& loops, const Lanes& lanes, const PlaneTile& tile, Index stride, View targets, Index size)
      : columns_{tile.size, lanes.width, stride * lanes.width, lanes.used(tile.block)} {
    if (columns_.used < lanes.width) values_.fill(0.0F);
    loops.transpose(columns_.used, tile.size, targets.data() + tile.block * lanes.width * size + tile.from, size,
                    values_.data(), lanes.width);
  }
  /// \param labels [batch]: for each example, the index of the value that is 1, all others being 0; with size 1, the
  /// value itself
  TargetTile(const Lanes& lanes, const PlaneTile& tile, Index stride, const Labels& labels, Index size)
      : columns_{tile.size, lanes.width, stride * lanes.width, lanes.used(tile.block)} {
    values_.fill(0.0F);
    const auto add = [&](Index lane, std::int32_t label, float part) {
      const Index position = size == 1 ? label - 1 : label - tile.from;
      if (position < 0 || position >= tile.size) return;
      values_[static_cast<std::size_t>(position * lanes.width + lane)] += part;
    };
    for (Index lane = 0; lane < columns_.used; ++lane) {
      const auto example = static_cast<std::size_t>(tile.block * lanes.width + lane);
      const float share = labels.mixed() ? labels.shares[example] : 0.0F;
      add(lane, labels.first[example], 1 - share);
      if (labels.mixed()) add(lane, labels.second[example], share);
    }
  }
  const Columns& columns() const { return columns_; }
  const float* values() const { return values_.data(); }

 private:
  Columns columns_;
  std::array<float, static_cast<std::size_t>(Planes::kTile* kMaximumLanes)> values_;
};

/// How many logits come before the label's: larger ones, and equal ones of smaller number. A NaN comes before all.
std::int64_t rank_of(std::size_t label, View logits) {
  std::int64_t before = 0;
  for (std::size_t k = 0; k < logits.size(); ++k) {
    const bool behind = logits[k] < logits[label] || (logits[k] == logits[label] && k >= label);
    before += behind ? 0 : 1;
  }
  return before;
}

/// Whether every logit lies on its target's side: σ(z) > ½ where t > ½.
bool all_on_their_side(View logits, View targets) {
  for (std::size_t k = 0; k < logits.size(); ++k) {
    if (!(targets[k] > 0.5F ? logits[k] > 0 : logits[k] <= 0)) return false;
  }
  return true;
}

// Losses of scores, one for each class, against the label.

/// Some lanes of a batch of scores, with their labels.
struct LabelGroup {
  Columns columns;
  Index at = 0;  ///< where in the scores it begins
  std::array<std::int32_t, Lanes::kVector> labels{};
  LaneWeights weights;
  std::span<const std::int32_t> second = {};  ///< [used] labels, or empty
  View shares = {};                           ///< [used] of the second labels, or empty

  Index place(std::int32_t label, Index lane) const { return label * columns.stride + lane; }
  /// By how much the target's product with the logits grows where the second label gets its share of the first.
  double moved(const float* logits, Index lane) const {
    if (second.empty()) return 0;
    const auto i = static_cast<std::size_t>(lane);
    const double from = logits[place(labels[i], lane)], to = logits[place(second[i], lane)];
    return static_cast<double>(shares[i]) * (to - from);
  }
  /// The same in the gradient. \param scale of a target of 1
  void move(float scale, float* d) const {
    for (std::size_t i = 0; i < second.size(); ++i) {
      const auto lane = static_cast<Index>(i);
      d[place(labels[i], lane)] += scale * shares[i];
      d[place(second[i], lane)] -= scale * shares[i];
    }
  }
};

/// A batch of scores.
struct Scores {
  Index classes, batch;
  Labels labels;
  View weights;
};

/// Calls work(group) for every Lanes::kVector lanes, or the only 8, and adds the LossSums that it gives in their order.
template <typename Work>
void add_groups(int threads, const Scores& scores, LossSums& sums, const Work& work) {
  const Lanes lanes(scores.batch);
  assert(std::ssize(scores.labels.first) == scores.batch);
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
      label = scores.labels.first[static_cast<std::size_t>(example + n)];
      assert(label >= 0 && label < scores.classes);
    }
    if (scores.labels.mixed() && used > 0) {
      const auto first = static_cast<std::size_t>(example), count = static_cast<std::size_t>(used);
      group.second = scores.labels.second.subspan(first, count);
      group.shares = scores.labels.shares.subspan(first, count);
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
LossSums softmax_losses(const LabelGroup& group, const float* logits, const SoftmaxSums& lanes, double smoothing) {
  LossSums sums;
  for (Index lane = 0; lane < group.columns.used; ++lane) {
    double target = (1 - smoothing) * (static_cast<double>(lanes.label[lane]) + group.moved(logits, lane));
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

void CpuBackend::sigmoid_cross_entropy(const Extent& extent, Index batch, View logits, const Labels& labels,
                                       View targets, float smoothing, const LossScale& scale, MutableView dlogits,
                                       LossSums& sums) {
  const Lanes lanes(batch);
  const Planes planes(extent);
  const View z = in_layout(Innermost::examples, extent, batch, logits, x_copy_);
  const MutableView dz = room_in_layout(Innermost::examples, extent, batch, dlogits, dx_copy_);
  const auto size = static_cast<float>(extent.size());
  std::vector<double> parts(static_cast<std::size_t>(planes.tiles(lanes)));
  for_each_tile(settings_.threads, lanes, planes, [&](const PlaneTile& tile) {
    const TargetTile target = labels.empty() ? TargetTile(loops_, lanes, tile, planes.stride, targets, extent.size())
                                             : TargetTile(lanes, tile, planes.stride, labels, extent.size());
    const LaneWeights weights(scale.weights, tile.block * lanes.width, target.columns().used);
    const Index at = tile.block * lanes.block_size(extent) + tile.to;
    float* const d = dz.empty() ? nullptr : dz.data() + at;
    parts[static_cast<std::size_t>(tile.number)] = loops_.loss.sigmoid(
        target.columns(), z.data() + at, target.values(), weights.values(), smoothing, scale.factor / size, d);
    if (d != nullptr && weights.any()) loops_.loss.weigh(target.columns(), weights.values(), d);
  });
  settle(Innermost::examples, extent, batch, dz, dlogits);
  double loss = 0;
  for (double part : parts) loss += part;
  sums.loss += loss / static_cast<double>(extent.size());
  sums.examples += batch;
  count_hits(extent, batch, logits, labels.first, targets, sums);
}

void CpuBackend::count_hits(const Extent& extent, Index batch, View logits, std::span<const std::int32_t> labels,
                            View targets, LossSums& sums) {
  const auto size = static_cast<std::size_t>(extent.size()), examples = static_cast<std::size_t>(batch);
  const MutableView rows(packed_.floats(batch * extent.size()), examples * size);
  store(extent, batch, logits, rows);
  for (std::size_t i = 0; i < examples; ++i) {
    const View row = rows.subspan(i * size, size);
    if (labels.empty()) {
      sums.correct += all_on_their_side(row, targets.subspan(i * size, size)) ? 1 : 0;
    } else if (size == 1) {
      const auto target = static_cast<float>(labels[i]);
      sums.correct += all_on_their_side(row, View(&target, 1)) ? 1 : 0;
    } else {
      const std::int64_t before = rank_of(static_cast<std::size_t>(labels[i]), row);
      sums.correct += before == 0 ? 1 : 0;
      sums.correct_top5 += before < 5 ? 1 : 0;
    }
  }
}

void CpuBackend::error_loss(const ErrorSpec& spec, Index batch, View outputs, View targets, const LossScale& scale,
                            MutableView doutputs, LossSums& sums) {
  const Lanes lanes(batch);
  const Planes planes(spec.extent);
  const View y = in_layout(Innermost::examples, spec.extent, batch, outputs, x_copy_);
  const MutableView dy = room_in_layout(Innermost::examples, spec.extent, batch, doutputs, dx_copy_);
  const Index values = spec.extent.size();
  const auto size = static_cast<float>(values);
  const float factor = spec.loss == ErrorLoss::squared ? 2.0F * scale.factor / size : scale.factor / size;
  std::vector<ErrorSums> parts(static_cast<std::size_t>(planes.tiles(lanes)));
  for_each_tile(settings_.threads, lanes, planes, [&](const PlaneTile& tile) {
    const TargetTile target(loops_, lanes, tile, planes.stride, targets, values);
    const LaneWeights weights(scale.weights, tile.block * lanes.width, target.columns().used);
    const Index at = tile.block * lanes.block_size(spec.extent) + tile.to;
    float* const d = dy.empty() ? nullptr : dy.data() + at;
    parts[static_cast<std::size_t>(tile.number)] = loops_.loss.errors(
        target.columns(), {spec.loss, spec.delta, factor, weights.values()}, y.data() + at, target.values(), d);
    if (d != nullptr && weights.any()) loops_.loss.weigh(target.columns(), weights.values(), d);
  });
  settle(Innermost::examples, spec.extent, batch, dy, doutputs);
  ErrorSums total;
  for (const ErrorSums& part : parts) {
    total.loss += part.loss;
    total.squared += part.squared;
    total.absolute += part.absolute;
    total.target += part.target;
    total.target_squared += part.target_squared;
  }
  sums.loss += total.loss / static_cast<double>(values);
  sums.examples += batch;
  sums.squared_error += total.squared;
  sums.absolute_error += total.absolute;
  sums.target_sum += total.target;
  sums.target_squared_sum += total.target_squared;
  sums.values += batch * values;
}

void CpuBackend::softmax_cross_entropy(Index classes, Index batch, View logits, const Labels& labels, float smoothing,
                                       const LossScale& scale, MutableView dlogits, LossSums& sums) {
  add_groups(settings_.threads, {classes, batch, labels, scale.weights}, sums, [&](const LabelGroup& group) {
    const float* const z = logits.data() + group.at;
    float* const d = dlogits.empty() ? nullptr : dlogits.data() + group.at;
    SoftmaxSums lanes;
    loops_.loss.softmax_sums(group.columns, z, group.labels.data(), lanes, d);
    if (d != nullptr) {
      loops_.loss.softmax_gradient(group.columns, group.labels.data(), lanes, smoothing, scale.factor, d);
      group.move(scale.factor * (1 - smoothing), d);
      if (group.weights.any()) loops_.loss.weigh(group.columns, group.weights.values(), d);
    }
    return softmax_losses(group, z, lanes, static_cast<double>(smoothing));
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
