#include "cuda/found.hpp"
#include "unisono/base/errors.hpp"

// Losses that are computed output by output, and the sums of all losses: one warp for each example, sums in double; the
// sums of the blocks are added up in the order of the blocks.
namespace unisono::kernels::cuda {

namespace {

constexpr unsigned kWarpsOfBlock = kBlock / kWarp;

/// found[block] = Σ of `own` over the first lanes of the block's warps.
__device__ void sum_of_block(const Found& own, Found* found) {
  __shared__ Found warps[kWarpsOfBlock];
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  Found sum = warps[0];
  for (unsigned warp = 1; warp < kWarpsOfBlock; ++warp) sum = sum + warps[warp];
  found[blockIdx.x] = sum;
}

/// How often a logit is chosen before the label's: it is larger, or equal and of a smaller class, or no number.
template <typename T>
__device__ int chosen_before(std::int64_t classes, const T* logits, std::int64_t label) {
  const float own = to_float(logits[label]);
  int before = 0;
  for (std::int64_t k = threadIdx.x % kWarp; k < classes; k += kWarp) {
    const float logit = to_float(logits[k]);
    before += logit < own || (logit == own && k >= label) ? 0 : 1;
  }
  return warp_sum(before);
}

/// The labels of a batch; see Labels. Null: there are none.
struct UploadedLabels {
  const std::int32_t* const* first;
  const std::int32_t* const* second;
  const float* const* shares;

  __device__ float share(std::int64_t example) const { return second == nullptr ? 0.0F : (*shares)[example]; }
  /// An example's target of class k.
  __device__ float target(std::int64_t example, std::int64_t k) const {
    const float share = this->share(example);
    return (k == (*first)[example] ? 1 - share : 0.0F) + (second != nullptr && k == (*second)[example] ? share : 0.0F);
  }
};

/// The weight of an example; 1 where there are no weights.
__device__ float weight_of(const float* const* weights, std::int64_t example) {
  return weights == nullptr ? 1.0F : (*weights)[example];
}

Grid grid_of_warps(Index batch) {
  constexpr Index kMostBlocks = 512;
  return {.blocks = static_cast<unsigned>(std::min<Index>(kMostBlocks, blocks_for(batch, kWarpsOfBlock))),
          .threads = kBlock};
}

constexpr int kSlots = 64;  // sums that are kept at a time

/// sums += Σ found, by one warp, in an order that depends only on their number.
__global__ void take_found(std::int64_t blocks, const Found* found, LossAccumulators* sums) {
  Found own{};
  for (std::int64_t i = threadIdx.x; i < blocks; i += kWarp) own = own + found[i];
  const Found total{warp_sum(own.loss),        warp_sum(own.squared),        warp_sum(own.absolute),
                    warp_sum(own.target),      warp_sum(own.target_squared), warp_sum(own.correct),
                    warp_sum(own.correct_top5)};
  if (threadIdx.x > 0) return;
  sums->loss += total.loss;
  sums->squared += total.squared;
  sums->absolute += total.absolute;
  sums->target += total.target;
  sums->target_squared += total.target_squared;
  sums->correct += static_cast<unsigned long long>(total.correct);
  sums->correct_top5 += static_cast<unsigned long long>(total.correct_top5);
}

/// Examples of [C, H, W], in the order of activations; targets lie in the canonical order.
struct Outputs {
  std::int64_t channels, pixels;
  __device__ std::int64_t size() const { return channels * pixels; }
  __device__ std::int64_t canonical(std::int64_t i) const { return i % channels * pixels + i / channels; }
};

/// loss = mean of max(z, 0) − z t + log(1 + exp(−|z|)), t the smoothed target.
template <typename T>
__global__ void sigmoid_losses(std::int64_t batch, Outputs outputs, const T* logits, UploadedLabels labels,
                               const float* const* targets, const float* const* weights, float smoothing, float scale,
                               T* dlogits, Found* found) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock, size = outputs.size();
  Found sum{};
  for (std::int64_t b = thread_number() / kWarp; b < batch; b += warps) {
    const T* const row = logits + b * size;
    const float weight = weight_of(weights, b), own_scale = scale * weight;
    double loss = 0;
    int wrong = 0;
    for (std::int64_t i = lane; i < size; i += kWarp) {
      const std::int64_t e = outputs.canonical(i);
      // With one output, the label is its target.
      const float hard = labels.first != nullptr ? labels.target(b, size == 1 ? 1 : e) : (*targets)[b * size + e];
      const float target = hard * (1 - smoothing) + 0.5F * smoothing, z = to_float(row[i]);
      loss += static_cast<double>(fmaxf(z, 0) - z * target) + static_cast<double>(log1pf(expf(-fabsf(z))));
      const bool wanted = labels.first != nullptr ? (*labels.first)[b] == 1 : hard > 0.5F;  // of one label: see below
      wrong += (wanted ? z > 0 : z <= 0) ? 0 : 1;
      if (dlogits != nullptr) dlogits[b * size + i] = rounded_to<T>(own_scale * (1 / (1 + expf(-z)) - target));
    }
    sum.loss += static_cast<double>(weight) * warp_sum(loss) / static_cast<double>(size);
    wrong = warp_sum(wrong);
    if (labels.first != nullptr && size > 1) {
      const std::int64_t label = (*labels.first)[b];
      // There is only one pixel: labels belong to rows.
      const int before = chosen_before(size, row, label);
      sum.correct += before == 0 ? 1 : 0;
      sum.correct_top5 += before < 5 ? 1 : 0;
    } else {
      sum.correct += wrong == 0 ? 1 : 0;
    }
  }
  sum_of_block(sum, found);
}

/// The loss of an error e, and the factor of `scale` in its gradient: e itself for e², the slope for the others.
__device__ double loss_of(ErrorLoss loss, double delta, double error) {
  const double size = fabs(error);
  if (loss == ErrorLoss::squared) return error * error;
  if (loss == ErrorLoss::absolute) return size;
  return size <= delta ? 0.5 * error * error : delta * (size - 0.5 * delta);
}
__device__ float slope_of(ErrorLoss loss, float delta, float error) {
  if (loss == ErrorLoss::squared) return error;
  if (loss == ErrorLoss::absolute) return error > 0 ? 1 : error < 0 ? -1 : error;
  return error > delta ? delta : error < -delta ? -delta : error;
}

template <typename T>
__global__ void error_losses(std::int64_t batch, Outputs outputs, ErrorLoss loss, float delta, const T* y,
                             const float* const* targets, const float* const* weights, float scale, T* dy,
                             Found* found) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock, size = outputs.size();
  Found sum{};
  for (std::int64_t b = thread_number() / kWarp; b < batch; b += warps) {
    const float weight = weight_of(weights, b), own_scale = scale * weight;
    double losses = 0, squared = 0, absolute = 0, target_sum = 0, target_squared = 0;
    for (std::int64_t i = lane; i < size; i += kWarp) {
      const float target = (*targets)[b * size + outputs.canonical(i)], error = to_float(y[b * size + i]) - target;
      const double wide = static_cast<double>(error);
      losses += loss_of(loss, static_cast<double>(delta), wide);
      squared += wide * wide;
      absolute += fabs(wide);
      target_sum += static_cast<double>(target);
      target_squared += static_cast<double>(target) * static_cast<double>(target);
      if (dy != nullptr) dy[b * size + i] = rounded_to<T>(own_scale * slope_of(loss, delta, error));
    }
    sum.loss += static_cast<double>(weight) * warp_sum(losses) / static_cast<double>(size);
    sum.squared += warp_sum(squared);
    sum.absolute += warp_sum(absolute);
    sum.target += warp_sum(target_sum);
    sum.target_squared += warp_sum(target_squared);
  }
  sum_of_block(sum, found);
}

UploadedLabels labels_of(Queue& queue, const Labels& labels) {
  UploadedLabels uploaded{};
  if (!labels.empty()) uploaded.first = queue.upload(labels.first);
  if (labels.mixed()) {
    uploaded.second = queue.upload(labels.second);
    uploaded.shares = queue.upload(labels.shares);
  }
  return uploaded;
}

Outputs outputs_of(const Extent& extent) { return {extent.channels, extent.height * extent.width}; }

}  // namespace

LossAccumulators* CudaBackend::accumulators_of(const LossSums& sums) {
  constexpr auto kFloats = static_cast<Index>(sizeof(LossAccumulators) / sizeof(float));
  if (losses_.size() == 0) losses_ = Buffer(kSlots * kFloats, memory());
  int slot = 0;
  const auto known = loss_slots_.find(&sums);
  if (known != loss_slots_.end()) {
    slot = known->second;
  } else {
    const auto taken = [&] {
      return std::any_of(loss_slots_.begin(), loss_slots_.end(), [&](const auto& one) { return one.second == slot; });
    };
    while (slot < kSlots && taken()) ++slot;
    if (slot == kSlots) throw DeviceError("too many sums of losses are in use at a time; collect some of them");
    loss_slots_.emplace(&sums, slot);
  }
  return reinterpret_cast<LossAccumulators*>(losses_.data()) + slot;
}

void CudaBackend::collect(LossSums& sums) {
  const auto found = loss_slots_.find(&sums);
  if (found == loss_slots_.end()) return;
  constexpr std::size_t kFloats = sizeof(LossAccumulators) / sizeof(float);
  const MutableView there = losses_.view().subspan(static_cast<std::size_t>(found->second) * kFloats, kFloats);
  LossAccumulators own{};
  memory().copy(there, {reinterpret_cast<float*>(&own), kFloats});
  clear(there);
  submit();  // so that the next step is the same sequence as always
  loss_slots_.erase(found);
  sums.loss += own.loss;
  sums.squared_error += own.squared;
  sums.absolute_error += own.absolute;
  sums.target_sum += own.target;
  sums.target_squared_sum += own.target_squared;
  sums.correct += static_cast<std::int64_t>(own.correct);
  sums.correct_top5 += static_cast<std::int64_t>(own.correct_top5);
}

const float* const* CudaBackend::weights_of(const LossScale& scale) {
  return scale.weights.empty() ? nullptr : queue().upload(scale.weights);
}

void CudaBackend::add_found(const Found* found, Index blocks, Index batch, LossSums& sums) {
  queue().launch(take_found, {.blocks = 1, .threads = kWarp}, blocks, found, accumulators_of(sums));
  sums.examples += batch;
}

void CudaBackend::sigmoid_cross_entropy(const Extent& extent, Index batch, View logits, const Labels& labels,
                                        View targets, float smoothing, const LossScale& scale, MutableView dlogits,
                                        LossSums& sums) {
  const Grid grid = grid_of_warps(batch);
  auto* const found = partials_.take<Found>(grid.blocks.x);
  const UploadedLabels uploaded_labels = labels_of(queue(), labels);
  const float* const* const uploaded_targets = labels.empty() ? queue().upload(targets) : nullptr;
  const float* const* const weights = weights_of(scale);
  with_type([&]<typename T>(T) {
    queue().launch(sigmoid_losses<T>, grid, batch, outputs_of(extent), values_of<T>(logits), uploaded_labels,
                   uploaded_targets, weights, smoothing, scale.factor / static_cast<float>(extent.size()),
                   values_of<T>(dlogits), found);
  });
  add_found(found, grid.blocks.x, batch, sums);
}

void CudaBackend::error_loss(const ErrorSpec& spec, Index batch, View outputs, View targets, const LossScale& scale,
                             MutableView doutputs, LossSums& sums) {
  const Grid grid = grid_of_warps(batch);
  auto* const found = partials_.take<Found>(grid.blocks.x);
  const auto* const uploaded = queue().upload(targets);
  const float* const* const weights = weights_of(scale);
  const auto size = static_cast<float>(spec.extent.size());
  const float factor = spec.loss == ErrorLoss::squared ? 2.0F * scale.factor / size : scale.factor / size;
  with_type([&]<typename T>(T) {
    queue().launch(error_losses<T>, grid, batch, outputs_of(spec.extent), spec.loss, spec.delta, values_of<T>(outputs),
                   uploaded, weights, factor, values_of<T>(doutputs), found);
  });
  add_found(found, grid.blocks.x, batch, sums);
  sums.values += batch * spec.extent.size();
}

// Losses of scores, one for each class, against the label.

namespace {

/// loss = log Σ exp(z − m) − (1 − smoothing) (z_label − m) − smoothing / K · Σ (z − m), m the largest logit.
template <typename T>
__global__ void softmax_losses(std::int64_t batch, std::int64_t classes, const T* logits, UploadedLabels labels,
                               const float* const* weights, float smoothing, float scale, T* dlogits, Found* found) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock;
  Found sum{};
  for (std::int64_t b = thread_number() / kWarp; b < batch; b += warps) {
    const T* const row = logits + b * classes;
    const std::int64_t label = (*labels.first)[b];
    const float weight = weight_of(weights, b), own_scale = scale * weight;
    float largest = -INFINITY;
    for (std::int64_t k = lane; k < classes; k += kWarp) largest = fmaxf(largest, to_float(row[k]));
    largest = warp_max(largest);
    double exponentials = 0, distances = 0;
    for (std::int64_t k = lane; k < classes; k += kWarp) {
      const float distance = to_float(row[k]) - largest;
      exponentials += static_cast<double>(expf(distance));
      distances += static_cast<double>(distance);
    }
    exponentials = warp_sum(exponentials);
    distances = warp_sum(distances);
    const int before = chosen_before(classes, row, label);
    const auto share = static_cast<double>(smoothing) / static_cast<double>(classes);
    double at_label = static_cast<double>(to_float(row[label]) - largest);
    if (labels.second != nullptr) {
      const auto moved = static_cast<double>(to_float(row[(*labels.second)[b]]) - to_float(row[label]));
      at_label += static_cast<double>(labels.share(b)) * moved;
    }
    const double loss = log(exponentials) - (1 - static_cast<double>(smoothing)) * at_label - share * distances;
    sum.loss += static_cast<double>(weight) * loss;
    sum.correct += before == 0 ? 1 : 0;
    sum.correct_top5 += before < 5 ? 1 : 0;
    if (dlogits == nullptr) continue;
    const auto inverse = static_cast<float>(1 / exponentials);
    for (std::int64_t k = lane; k < classes; k += kWarp) {
      const float target = (1 - smoothing) * labels.target(b, k) + static_cast<float>(share);
      dlogits[b * classes + k] = rounded_to<T>(own_scale * (expf(to_float(row[k]) - largest) * inverse - target));
    }
  }
  sum_of_block(sum, found);
}

/// loss = max(0, 1 + z_other − z_label), z_other the largest of the other scores, the first of equals.
template <typename T>
__global__ void hinge_losses(std::int64_t batch, std::int64_t classes, const T* scores,
                             const std::int32_t* const* labels, const float* const* weights, float scale, T* dscores,
                             Found* found) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock;
  Found sum{};
  for (std::int64_t b = thread_number() / kWarp; b < batch; b += warps) {
    const T* const row = scores + b * classes;
    const std::int64_t label = (*labels)[b];
    const float weight = weight_of(weights, b), own_scale = scale * weight;
    float largest = -INFINITY;
    int no_numbers = 0;
    for (std::int64_t k = lane; k < classes; k += kWarp) {
      const float score = to_float(row[k]);
      no_numbers += score != score ? 1 : 0;
      if (k != label) largest = fmaxf(largest, score);
    }
    largest = warp_max(largest);
    int other = static_cast<int>(classes);  // the first of the largest
    for (std::int64_t k = lane; k < classes; k += kWarp) {
      if (k != label && k < other && to_float(row[k]) == largest) other = static_cast<int>(k);
    }
    other = -warp_max(-other);
    const float margin = warp_sum(no_numbers) > 0 ? NAN : 1 + (largest - to_float(row[label]));
    const int before = chosen_before(classes, row, label);
    sum.loss += static_cast<double>(weight) * (margin <= 0 ? 0 : static_cast<double>(margin));
    sum.correct += before == 0 ? 1 : 0;
    sum.correct_top5 += before < 5 ? 1 : 0;
    if (dscores == nullptr) continue;
    for (std::int64_t k = lane; k < classes; k += kWarp) {
      const float slope = (k == other ? own_scale : 0) - (k == label ? own_scale : 0);
      dscores[b * classes + k] = rounded_to<T>(margin > 0 ? slope : 0);
    }
  }
  sum_of_block(sum, found);
}

}  // namespace

void CudaBackend::softmax_cross_entropy(Index classes, Index batch, View logits, const Labels& labels, float smoothing,
                                        const LossScale& scale, MutableView dlogits, LossSums& sums) {
  const Grid grid = grid_of_warps(batch);
  auto* const found = partials_.take<Found>(grid.blocks.x);
  const UploadedLabels uploaded = labels_of(queue(), labels);
  const float* const* const weights = weights_of(scale);
  with_type([&]<typename T>(T) {
    queue().launch(softmax_losses<T>, grid, batch, classes, values_of<T>(logits), uploaded, weights, smoothing,
                   scale.factor, values_of<T>(dlogits), found);
  });
  add_found(found, grid.blocks.x, batch, sums);
}

void CudaBackend::multiclass_hinge(Index classes, Index batch, View scores, std::span<const std::int32_t> labels,
                                   const LossScale& scale, MutableView dscores, LossSums& sums) {
  const Grid grid = grid_of_warps(batch);
  auto* const found = partials_.take<Found>(grid.blocks.x);
  const auto* const uploaded = queue().upload(labels);
  const float* const* const weights = weights_of(scale);
  with_type([&]<typename T>(T) {
    queue().launch(hinge_losses<T>, grid, batch, classes, values_of<T>(scores), uploaded, weights, scale.factor,
                   values_of<T>(dscores), found);
  });
  add_found(found, grid.blocks.x, batch, sums);
}

}  // namespace unisono::kernels::cuda
