#include <algorithm>

#include "cuda/found.hpp"

// The head of a language model: logits of some rows at a time, their losses and gradients in place of them, and the
// products with these, added up over the rows in their order. The products are those of a dense layer (see
// cuda_backend.cpp): 2 · rows · V · C flops forward, and twice as many backward.
namespace unisono::kernels::cuda {
namespace {

constexpr Index kLogitsAtATime = Index{16} << 20;  // 64 MiB of floats
constexpr Index kRowsOfAlignment = 16;             // so many rows of any length are a multiple of 32 bytes
constexpr float kLowest = -3.402823466e38F;        // the smallest float

/// What a block knows of a row's logits z.
struct RowOfLogits {
  float largest = kLowest;
  double exponentials = 0;  ///< Σ exp(z − largest)
  double total = 0;         ///< Σ z
  int before = 0;           ///< logits that are chosen before the label's

  /// Reads each logit once. \pre the block's threads all call it
  template <typename T>
  __device__ RowOfLogits(std::int64_t classes, const T* row, std::int64_t label) {
    const float at_label = to_float(row[label]);
    for (std::int64_t k = threadIdx.x; k < classes; k += blockDim.x) add(to_float(row[k]), at_label, k < label);
    const float own = largest;
    largest = block_max(own);
    exponentials = block_sum(exponentials * static_cast<double>(expf(own - largest)));
    total = block_sum(total);
    before = block_sum(before);
  }
  __device__ void add(float z, float at_label, bool is_smaller_class) {
    if (z > largest) {
      exponentials *= static_cast<double>(expf(largest - z));
      largest = z;
    }
    exponentials += static_cast<double>(expf(z - largest));
    total += static_cast<double>(z);
    before += z < at_label || (z == at_label && !is_smaller_class) ? 0 : 1;
  }
};

/// loss = ln Σ exp(z) − (1 − smoothing) z_label − smoothing / V · Σ z; a block for each row.
template <typename T>
__global__ void head_losses(std::int64_t classes, const std::int32_t* const* labels, float smoothing, float scale,
                            bool wants_gradient, T* logits, Found* found) {
  T* const row = logits + static_cast<std::int64_t>(blockIdx.x) * classes;
  const std::int64_t label = (*labels)[blockIdx.x];
  if (label < 0) {
    if (threadIdx.x == 0) found[blockIdx.x] = {};
    for (std::int64_t k = threadIdx.x; k < classes && wants_gradient; k += blockDim.x) row[k] = rounded_to<T>(0);
    return;
  }
  const RowOfLogits sums(classes, row, label);
  const auto share = static_cast<double>(smoothing) / static_cast<double>(classes);
  if (threadIdx.x == 0) {
    const double at_label = (1 - static_cast<double>(smoothing)) * static_cast<double>(to_float(row[label]));
    const double log_sum = static_cast<double>(sums.largest) + log(sums.exponentials);
    Found own{};
    own.loss = log_sum - at_label - share * sums.total;
    own.correct = sums.before < 1 ? 1 : 0;
    own.correct_top5 = sums.before < 5 ? 1 : 0;
    found[blockIdx.x] = own;
  }
  if (!wants_gradient) return;
  __syncthreads();  // the label's logit has been read
  const auto inverse = static_cast<float>(1 / sums.exponentials);
  for (std::int64_t k = threadIdx.x; k < classes; k += blockDim.x) {
    const float target = (k == label ? 1 - smoothing : 0) + static_cast<float>(share);
    row[k] = rounded_to<T>(scale * (expf(to_float(row[k]) - sums.largest) * inverse - target));
  }
}

/// As many rows as kLogitsAtATime allows, but at least 16.
Index rows_at_a_time(Index rows, Index classes) {
  const Index fit = kLogitsAtATime / classes / kRowsOfAlignment * kRowsOfAlignment;
  return std::min(rows, std::max(kRowsOfAlignment, fit));
}

}  // namespace

void CudaBackend::head_loss(const HeadSpec& spec, Index rows, View x, View w, std::span<const std::int32_t> labels,
                            float scale, MutableView dx, MutableView dw, Write write, LossSums& sums) {
  if (rows == 0 && write == Write::overwrite) clear(dw);
  const Index units = spec.units, classes = spec.vocabulary, at_a_time = rows_at_a_time(rows, classes);
  float* const logits = values_.take<float>(activation_floats(precision_, at_a_time * classes));
  void* const workspace = workspace_.take<std::byte>(Products::kWorkspaceBytes);
  const bool wants_gradient = !dx.empty() || !dw.empty();
  ProductSpec weights{.m = units, .n = classes, .k = 0, .transpose_b = true, .floats = true};
  for (Index first = 0; first < rows; first += at_a_time) {
    const Index count = std::min(at_a_time, rows - first), offset = activation_floats(precision_, first * units);
    const float* const x_rows = x.data() + offset;
    products_.multiply(queue(), {.m = classes, .n = count, .k = units, .transpose_a = true},
                       {.a = rounded(w), .b = x_rows, .d = logits, .workspace = workspace});
    const auto own = labels.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    add_head_losses(spec, own, scale, wants_gradient, logits, sums);
    if (!dw.empty()) {
      weights.k = count;
      weights.adds = write == Write::add || first > 0;
      products_.multiply(queue(), weights, {.a = x_rows, .b = logits, .d = dw.data(), .workspace = workspace});
    }
    if (!dx.empty()) {
      products_.multiply(queue(), {.m = units, .n = count, .k = classes},
                         {.a = rounded(w), .b = logits, .d = dx.data() + offset, .workspace = workspace});
    }
  }
}

void CudaBackend::add_head_losses(const HeadSpec& spec, std::span<const std::int32_t> labels, float scale,
                                  bool wants_gradient, float* logits, LossSums& sums) {
  const Index rows = std::ssize(labels);
  auto* const found = partials_.take<Found>(rows);
  const auto* const uploaded = queue().upload(labels);
  with_type([&]<typename T>(T) {
    queue().launch(head_losses<T>, {.blocks = static_cast<unsigned>(rows), .threads = kBlock}, spec.vocabulary,
                   uploaded, spec.smoothing, scale, wants_gradient, reinterpret_cast<T*>(logits), found);
  });
  add_found(found, rows, std::count_if(labels.begin(), labels.end(), [](std::int32_t label) { return label >= 0; }),
            sums);
}

}  // namespace unisono::kernels::cuda
