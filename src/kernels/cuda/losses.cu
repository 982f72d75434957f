// Losses: a warp an example, in double; blocks' sums are added up in their order.
#include "cuda/grid.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::cuda {
namespace {

constexpr unsigned kWarpsOfBlock = kBlock / kWarp;
constexpr Index kMostBlocks = 512;
constexpr int kSlots = 64;  // sums that are kept at a time

/// What a warp, and then a block, has found.
struct Found {
  double loss, squared, absolute, target, target_squared, correct, correct_top5;
};

__device__ Found operator+(Found a, const Found& b) {
  return {a.loss + b.loss,
          a.squared + b.squared,
          a.absolute + b.absolute,
          a.target + b.target,
          a.target_squared + b.target_squared,
          a.correct + b.correct,
          a.correct_top5 + b.correct_top5};
}

/// found[block] = Σ of its warps' first lanes.
__device__ void sum_of_block(const Found& own, Found* found) {
  __shared__ Found warps[kWarpsOfBlock];
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  Found sum = warps[0];
  for (unsigned warp = 1; warp < kWarpsOfBlock; ++warp) sum = sum + warps[warp];
  found[blockIdx.x] = sum;
}

/// sums += Σ found, by one warp, in an order that depends on their number alone.
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

/// How often a logit is chosen before the label's: it is larger, or equal and of a smaller class, or no number.
template <typename T>
__device__ int chosen_before(std::int64_t classes, std::int64_t stride, const T* logits, std::int64_t label) {
  const float own = to_float(logits[label * stride]);
  int before = 0;
  for (std::int64_t k = threadIdx.x % kWarp; k < classes; k += kWarp) {
    const float logit = to_float(logits[k * stride]);
    before += logit < own || (logit == own && k >= label) ? 0 : 1;
  }
  return warp_sum(before);
}

/// loss = log Σ exp(z − m) − (1 − smoothing) (z_label − m) − smoothing / K · Σ (z − m), m the largest logit.
template <typename T>
__global__ void softmax_losses(std::int64_t batch, std::int64_t classes, const T* logits,
                               const std::int32_t* const* labels, float smoothing, float scale, T* dlogits,
                               Found* found) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock;
  Found sum{};
  for (std::int64_t b = thread_number() / kWarp; b < batch; b += warps) {
    const T* const row = logits + b * classes;
    const std::int64_t label = (*labels)[b];
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
    const int before = chosen_before(classes, 1, row, label);
    const auto share = static_cast<double>(smoothing) / static_cast<double>(classes);
    const double at_label = static_cast<double>(to_float(row[label]) - largest);
    sum.loss += log(exponentials) - (1 - static_cast<double>(smoothing)) * at_label - share * distances;
    sum.correct += before == 0 ? 1 : 0;
    sum.correct_top5 += before < 5 ? 1 : 0;
    if (dlogits == nullptr) continue;
    const auto inverse = static_cast<float>(1 / exponentials);
    for (std::int64_t k = lane; k < classes; k += kWarp) {
      const float target = (k == label ? 1 - smoothing : 0) + static_cast<float>(share);
      dlogits[b * classes + k] = rounded_to<T>(scale * (expf(to_float(row[k]) - largest) * inverse - target));
    }
  }
  sum_of_block(sum, found);
}

/// Examples of [C, H, W], in the order of activations; targets lie in the canonical order.
struct Outputs {
  std::int64_t channels, pixels;
  __device__ std::int64_t size() const { return channels * pixels; }
  __device__ std::int64_t canonical(std::int64_t i) const { return i % channels * pixels + i / channels; }
};

/// loss = mean of max(z, 0) − z t + log(1 + exp(−|z|)), t the smoothed target.
template <typename T>
__global__ void sigmoid_losses(std::int64_t batch, Outputs outputs, const T* logits, const std::int32_t* const* labels,
                               const float* const* targets, float smoothing, float scale, T* dlogits, Found* found) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock, size = outputs.size();
  Found sum{};
  for (std::int64_t b = thread_number() / kWarp; b < batch; b += warps) {
    const T* const row = logits + b * size;
    double loss = 0;
    int wrong = 0;
    for (std::int64_t i = lane; i < size; i += kWarp) {
      const std::int64_t e = outputs.canonical(i);
      const float hard = labels != nullptr ? ((*labels)[b] == e ? 1.0F : 0.0F) : (*targets)[b * size + e];
      const float target = hard * (1 - smoothing) + 0.5F * smoothing, z = to_float(row[i]);
      loss += static_cast<double>(fmaxf(z, 0) - z * target) + static_cast<double>(log1pf(expf(-fabsf(z))));
      wrong += (hard > 0.5F ? z > 0 : z <= 0) ? 0 : 1;
      if (dlogits != nullptr) dlogits[b * size + i] = rounded_to<T>(scale * (1 / (1 + expf(-z)) - target));
    }
    sum.loss += warp_sum(loss) / static_cast<double>(size);
    wrong = warp_sum(wrong);
    if (labels != nullptr) {
      const std::int64_t label = (*labels)[b];
      // The only pixel: labels are of rows.
      const int before = chosen_before(size, 1, row, label);
      sum.correct += before == 0 ? 1 : 0;
      sum.correct_top5 += before < 5 ? 1 : 0;
    } else {
      sum.correct += wrong == 0 ? 1 : 0;
    }
  }
  sum_of_block(sum, found);
}

template <typename T>
__global__ void squared_errors(std::int64_t batch, Outputs outputs, const T* y, const float* const* targets,
                               float scale, T* dy, Found* found) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock, size = outputs.size();
  Found sum{};
  for (std::int64_t b = thread_number() / kWarp; b < batch; b += warps) {
    double squared = 0, absolute = 0, target_sum = 0, target_squared = 0;
    for (std::int64_t i = lane; i < size; i += kWarp) {
      const float target = (*targets)[b * size + outputs.canonical(i)], error = to_float(y[b * size + i]) - target;
      squared += static_cast<double>(error) * static_cast<double>(error);
      absolute += static_cast<double>(fabsf(error));
      target_sum += static_cast<double>(target);
      target_squared += static_cast<double>(target) * static_cast<double>(target);
      if (dy != nullptr) dy[b * size + i] = rounded_to<T>(scale * error);
    }
    squared = warp_sum(squared);
    sum.loss += squared / static_cast<double>(size);
    sum.squared += squared;
    sum.absolute += warp_sum(absolute);
    sum.target += warp_sum(target_sum);
    sum.target_squared += warp_sum(target_squared);
  }
  sum_of_block(sum, found);
}

Outputs outputs_of(const Extent& extent) { return {extent.channels, extent.height * extent.width}; }

Grid grid_of_warps(Index batch) {
  return {.blocks = static_cast<unsigned>(std::min<Index>(kMostBlocks, blocks_for(batch, kWarpsOfBlock))),
          .threads = kBlock};
}

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
  submit();  // so that the next step is the sequence that it always is
  loss_slots_.erase(found);
  sums.loss += own.loss;
  sums.squared_error += own.squared;
  sums.absolute_error += own.absolute;
  sums.target_sum += own.target;
  sums.target_squared_sum += own.target_squared;
  sums.correct += static_cast<std::int64_t>(own.correct);
  sums.correct_top5 += static_cast<std::int64_t>(own.correct_top5);
}

void CudaBackend::softmax_cross_entropy(Index classes, Index batch, View logits, std::span<const std::int32_t> labels,
                                        float smoothing, float scale, MutableView dlogits, LossSums& sums) {
  const Grid grid = grid_of_warps(batch);
  auto* const found = partials_.take<Found>(grid.blocks.x);
  const auto* const uploaded = queue().upload(labels);
  with_type([&]<typename T>(T) {
    queue().launch(softmax_losses<T>, grid, batch, classes, values_of<T>(logits), uploaded, smoothing, scale,
                   values_of<T>(dlogits), found);
  });
  queue().launch(take_found, {.blocks = 1, .threads = kWarp}, grid.blocks.x, found, accumulators_of(sums));
  sums.examples += batch;
}

void CudaBackend::sigmoid_cross_entropy(const Extent& extent, Index batch, View logits,
                                        std::span<const std::int32_t> labels, View targets, float smoothing,
                                        float scale, MutableView dlogits, LossSums& sums) {
  const Grid grid = grid_of_warps(batch);
  auto* const found = partials_.take<Found>(grid.blocks.x);
  const std::int32_t* const* const uploaded_labels = labels.empty() ? nullptr : queue().upload(labels);
  const float* const* const uploaded_targets = labels.empty() ? queue().upload(targets) : nullptr;
  with_type([&]<typename T>(T) {
    queue().launch(sigmoid_losses<T>, grid, batch, outputs_of(extent), values_of<T>(logits), uploaded_labels,
                   uploaded_targets, smoothing, scale / static_cast<float>(extent.size()), values_of<T>(dlogits),
                   found);
  });
  queue().launch(take_found, {.blocks = 1, .threads = kWarp}, grid.blocks.x, found, accumulators_of(sums));
  sums.examples += batch;
}

void CudaBackend::mean_squared_error(const Extent& extent, Index batch, View outputs, View targets, float scale,
                                     MutableView doutputs, LossSums& sums) {
  const Grid grid = grid_of_warps(batch);
  auto* const found = partials_.take<Found>(grid.blocks.x);
  const auto* const uploaded = queue().upload(targets);
  with_type([&]<typename T>(T) {
    queue().launch(squared_errors<T>, grid, batch, outputs_of(extent), values_of<T>(outputs), uploaded,
                   2.0F * scale / static_cast<float>(extent.size()), values_of<T>(doutputs), found);
  });
  queue().launch(take_found, {.blocks = 1, .threads = kWarp}, grid.blocks.x, found, accumulators_of(sums));
  sums.examples += batch;
  sums.values += batch * extent.size();
}

}  // namespace unisono::cuda
