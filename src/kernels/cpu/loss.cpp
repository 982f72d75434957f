#include <array>
#include <cassert>
#include <cmath>
#include <vector>

#include "cpu/chunks.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/planes.hpp"

namespace unisono::cpu {
namespace {

/// Σ over the first `used` lanes:
///   loss = log Σ exp(z − m) − (1 − smoothing) (z_label − m) − smoothing / K · Σ (z − m), m the largest logit.
LossSums softmax_losses(const SoftmaxSums& lanes, Index classes, Index used, double smoothing) {
  LossSums sums;
  for (Index lane = 0; lane < used; ++lane) {
    double target = (1 - smoothing) * static_cast<double>(lanes.label[lane]);
    if (smoothing != 0) target += smoothing / static_cast<double>(classes) * lanes.logits[lane];
    sums.loss += std::log(lanes.exponentials[lane]) - target;
    sums.correct += lanes.before[lane] == 0 ? 1 : 0;
    sums.correct_top5 += lanes.before[lane] < 5 ? 1 : 0;
  }
  return sums;
}

/// A tile of activations beside its targets, turned into the activations' order.
class TargetTile {
 public:
  /// \param targets [batch][size] of all examples
  TargetTile(const Loops& loops, const Lanes& lanes, const PlaneTile& tile, Index stride, View targets, Index size)
      : columns_{tile.size, lanes.width, stride * lanes.width, lanes.used(tile.block)} {
    if (columns_.used < lanes.width) values_.fill(0.0F);
    loops.transpose(columns_.used, tile.size, targets.data() + tile.block * lanes.width * size + tile.from, size,
                    values_.data(), lanes.width);
  }
  /// \param labels [batch]: of each example the value that is 1, all others being 0
  TargetTile(const Lanes& lanes, const PlaneTile& tile, Index stride, std::span<const std::int32_t> labels)
      : columns_{tile.size, lanes.width, stride * lanes.width, lanes.used(tile.block)} {
    values_.fill(0.0F);
    for (Index lane = 0; lane < columns_.used; ++lane) {
      const Index position = labels[static_cast<std::size_t>(tile.block * lanes.width + lane)] - tile.from;
      if (position < 0 || position >= tile.size) continue;
      values_[static_cast<std::size_t>(position * lanes.width + lane)] = 1;
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

}  // namespace

void CpuBackend::softmax_cross_entropy(Index classes, Index batch, View logits, std::span<const std::int32_t> labels,
                                       float smoothing, float scale, MutableView dlogits, LossSums& sums) {
  const Lanes lanes(batch);
  assert(static_cast<Index>(labels.size()) == batch);
  // A few examples of a few classes take less time than waking a thread.
  const int threads = classes * batch < kChunk ? 1 : settings_.threads;
  const Index groups = lanes.width / Lanes::kVector;
  std::vector<LossSums> parts(static_cast<std::size_t>(lanes.blocks * groups));
  parallel_for(threads, lanes.blocks * groups, [&](Index i) {
    const Index block = i / groups, lane = i % groups * Lanes::kVector, example = block * lanes.width + lane;
    const Index used = std::clamp<Index>(batch - example, 0, Lanes::kVector);
    const Columns columns{classes, Lanes::kVector, lanes.width, used};
    std::array<std::int32_t, Lanes::kVector> group_labels{};
    for (Index n = 0; n < used; ++n) {
      group_labels[static_cast<std::size_t>(n)] = labels[static_cast<std::size_t>(example + n)];
      assert(group_labels[static_cast<std::size_t>(n)] >= 0 && group_labels[static_cast<std::size_t>(n)] < classes);
    }
    const Index at = block * classes * lanes.width + lane;
    float* d = dlogits.empty() ? nullptr : dlogits.data() + at;
    SoftmaxSums lane_sums;
    loops_.loss.softmax_sums(columns, logits.data() + at, group_labels.data(), lane_sums, d);
    if (d != nullptr) {
      loops_.loss.softmax_gradient(columns, group_labels.data(), lane_sums, smoothing, scale, d);
    }
    parts[static_cast<std::size_t>(i)] = softmax_losses(lane_sums, classes, used, static_cast<double>(smoothing));
  });
  for (const LossSums& part : parts) {
    sums.loss += part.loss;
    sums.correct += part.correct;
    sums.correct_top5 += part.correct_top5;
  }
  sums.examples += batch;
}

void CpuBackend::sigmoid_cross_entropy(const Extent& extent, Index batch, View logits,
                                       std::span<const std::int32_t> labels, View targets, float smoothing, float scale,
                                       MutableView dlogits, LossSums& sums) {
  const Lanes lanes(batch);
  const Planes planes(extent);
  const auto size = static_cast<float>(extent.size());
  std::vector<double> parts(static_cast<std::size_t>(planes.tiles(lanes)));
  for_each_tile(settings_.threads, lanes, planes, [&](const PlaneTile& tile) {
    const TargetTile target = labels.empty() ? TargetTile(loops_, lanes, tile, planes.stride, targets, extent.size())
                                             : TargetTile(lanes, tile, planes.stride, labels);
    const Index at = tile.block * lanes.block_size(extent) + tile.to;
    parts[static_cast<std::size_t>(tile.number)] =
        loops_.loss.sigmoid(target.columns(), logits.data() + at, target.values(), smoothing, scale / size,
                            dlogits.empty() ? nullptr : dlogits.data() + at);
  });
  double loss = 0;
  for (double part : parts) loss += part;
  sums.loss += loss / static_cast<double>(extent.size());
  sums.examples += batch;
  count_hits(extent, batch, logits, labels, targets, sums);
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
    } else {
      const std::int64_t before = rank_of(static_cast<std::size_t>(labels[i]), row);
      sums.correct += before == 0 ? 1 : 0;
      sums.correct_top5 += before < 5 ? 1 : 0;
    }
  }
}

void CpuBackend::mean_squared_error(const Extent& extent, Index batch, View outputs, View targets, float scale,
                                    MutableView doutputs, LossSums& sums) {
  const Lanes lanes(batch);
  const Planes planes(extent);
  const auto size = static_cast<float>(extent.size());
  std::vector<ErrorSums> parts(static_cast<std::size_t>(planes.tiles(lanes)));
  for_each_tile(settings_.threads, lanes, planes, [&](const PlaneTile& tile) {
    const TargetTile target(loops_, lanes, tile, planes.stride, targets, extent.size());
    const Index at = tile.block * lanes.block_size(extent) + tile.to;
    parts[static_cast<std::size_t>(tile.number)] =
        loops_.loss.errors(target.columns(), outputs.data() + at, target.values(), 2.0F * scale / size,
                           doutputs.empty() ? nullptr : doutputs.data() + at);
  });
  ErrorSums total;
  for (const ErrorSums& part : parts) {
    total.squared += part.squared;
    total.absolute += part.absolute;
    total.target += part.target;
    total.target_squared += part.target_squared;
  }
  sums.loss += total.squared / static_cast<double>(extent.size());
  sums.examples += batch;
  sums.squared_error += total.squared;
  sums.absolute_error += total.absolute;
  sums.target_sum += total.target;
  sums.target_squared_sum += total.target_squared;
  sums.values += batch * extent.size();
}

}  // namespace unisono::cpu
