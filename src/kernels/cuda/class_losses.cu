// Losses of scores, one for each class, against the label.
#include "cuda/found.hpp"

namespace unisono::kernels::cuda {
namespace {

/// loss = log Σ exp(z − m) − (1 − smoothing) (z_label − m) − smoothing / K · Σ (z − m), m the largest logit.
template <typename T>
__global__ void softmax_losses(std::int64_t batch, std::int64_t classes, const T* logits,
                               const std::int32_t* const* labels, const float* const* weights, float smoothing,
                               float scale, T* dlogits, Found* found) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock;
  Found sum{};
  for (std::int64_t b = thread_number() / kWarp; b < batch; b += warps) {
    const T* const row = logits + b * classes;
    const std::int64_t label = (*labels)[b];
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
    const double at_label = static_cast<double>(to_float(row[label]) - largest);
    const double loss = log(exponentials) - (1 - static_cast<double>(smoothing)) * at_label - share * distances;
    sum.loss += static_cast<double>(weight) * loss;
    sum.correct += before == 0 ? 1 : 0;
    sum.correct_top5 += before < 5 ? 1 : 0;
    if (dlogits == nullptr) continue;
    const auto inverse = static_cast<float>(1 / exponentials);
    for (std::int64_t k = lane; k < classes; k += kWarp) {
      const float target = (k == label ? 1 - smoothing : 0) + static_cast<float>(share);
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

void CudaBackend::softmax_cross_entropy(Index classes, Index batch, View logits, std::span<const std::int32_t> labels,
                                        float smoothing, const LossScale& scale, MutableView dlogits, LossSums& sums) {
  const Grid grid = grid_of_warps(batch);
  auto* const found = partials_.take<Found>(grid.blocks.x);
  const auto* const uploaded = queue().upload(labels);
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
