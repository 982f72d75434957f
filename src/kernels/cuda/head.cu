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

  /// Reads each logit once. \param label its number among the row's logits, or that of another logit outside of them
  /// \pre the block's threads all call it
  template <typename T>
  __device__ RowOfLogits(std::int64_t classes, const T* row, std::int64_t label, float at_label) {
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
  const RowOfLogits sums(classes, row, label, to_float(row[label]));
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

// Where ranks share a row's logits, each finds the sums of its own, and they add up what all have found: before the
// gradients the sums of exponentials, then how many logits are chosen before the label's.

/// What a leaf knows of a row's logits, as doubles that ranks add up: 0 on all ranks but one.
struct LeafSums {
  double largest, exponentials, total, at_label;
};

/// The leaves of a row, of which this rank has some. It counts all of its own in the first one.
struct Leaves {
  int count, first, end;
};

/// sums[row][leaf] of this rank's logits; a block for each row.
template <typename T>
__global__ void sum_own_logits(std::int64_t classes, std::int64_t first_class, Leaves leaves,
                               const std::int32_t* const* labels, const T* logits, LeafSums* sums) {
  const T* const row = logits + static_cast<std::int64_t>(blockIdx.x) * classes;
  const RowOfLogits own(classes, row, -1, 0);
  if (threadIdx.x != 0) return;
  const std::int64_t label = (*labels)[blockIdx.x] - first_class;
  LeafSums* const all = sums + static_cast<std::int64_t>(blockIdx.x) * leaves.count;
  for (int leaf = 0; leaf < leaves.count; ++leaf) {
    all[leaf] = {};
    if (leaf > leaves.first && leaf < leaves.end) all[leaf].largest = static_cast<double>(kLowest);
  }
  const double at_label = label >= 0 && label < classes ? static_cast<double>(to_float(row[label])) : 0;
  all[leaves.first] = {static_cast<double>(own.largest), own.exponentials, own.total, at_label};
}

/// A row's logits on all ranks.
struct SharedRow {
  double largest = static_cast<double>(kLowest), exponentials = 0, total = 0, at_label = 0;

  __device__ SharedRow(int leaves, const LeafSums* sums) {
    for (int leaf = 0; leaf < leaves; ++leaf) {
      largest = sums[leaf].largest > largest ? sums[leaf].largest : largest;
      total += sums[leaf].total;
      at_label += sums[leaf].at_label;
    }
    for (int leaf = 0; leaf < leaves; ++leaf)
      exponentials += sums[leaf].exponentials * exp(sums[leaf].largest - largest);
  }
};

/// before[row] of this rank's logits, which become their gradients where these are wanted; a block for each row.
template <typename T>
__global__ void differentiate_own_logits(std::int64_t classes, std::int64_t first_class, std::int64_t vocabulary,
                                         int leaves, const std::int32_t* const* labels, const LeafSums* sums,
                                         float smoothing, float scale, bool wants_gradient, T* logits, double* before) {
  T* const row = logits + static_cast<std::int64_t>(blockIdx.x) * classes;
  const std::int64_t given = (*labels)[blockIdx.x], label = given - first_class;
  if (given < 0) {
    if (threadIdx.x == 0) before[blockIdx.x] = 0;
    for (std::int64_t k = threadIdx.x; k < classes && wants_gradient; k += blockDim.x) row[k] = rounded_to<T>(0);
    return;
  }
  const SharedRow all(leaves, sums + static_cast<std::int64_t>(blockIdx.x) * leaves);
  const RowOfLogits own(classes, row, label, static_cast<float>(all.at_label));
  if (threadIdx.x == 0) before[blockIdx.x] = own.before;
  if (!wants_gradient) return;
  const auto inverse = static_cast<float>(1 / all.exponentials), largest = static_cast<float>(all.largest);
  const auto share = static_cast<float>(static_cast<double>(smoothing) / static_cast<double>(vocabulary));
  for (std::int64_t k = threadIdx.x; k < classes; k += blockDim.x) {
    const float target = (k == label ? 1 - smoothing : 0) + share;
    row[k] = rounded_to<T>(scale * (expf(to_float(row[k]) - largest) * inverse - target));
  }
}

__global__ void find_losses(std::int64_t rows, std::int64_t vocabulary, int leaves, const std::int32_t* const* labels,
                            const LeafSums* sums, const double* before, float smoothing, Found* found) {
  for (std::int64_t i = thread_number(); i < rows; i += threads_of_grid()) {
    Found own{};
    if ((*labels)[i] >= 0) {
      const SharedRow all(leaves, sums + i * leaves);
      const auto spread = static_cast<double>(smoothing);
      own.loss = all.largest + log(all.exponentials) - (1 - spread) * all.at_label -
                 spread / static_cast<double>(vocabulary) * all.total;
      own.correct = before[i] < 1 ? 1 : 0;
      own.correct_top5 = before[i] < 5 ? 1 : 0;
    }
    found[i] = own;
  }
}

/// As many rows as kLogitsAtATime allows, but at least 16.
Index rows_at_a_time(Index rows, Index classes) {
  const Index fit = kLogitsAtATime / classes / kRowsOfAlignment * kRowsOfAlignment;
  return std::min(rows, std::max(kRowsOfAlignment, fit));
}

}  // namespace

void CudaBackend::head_loss(const HeadSpec& spec, const HeadInputs& inputs, const HeadGradients& gradients,
                            TensorGroup* group, LossSums& sums) {
  const auto& [rows, x, w, labels] = inputs;
  const auto& [scale, dx, dw, write] = gradients;
  if (rows == 0 && write == Write::overwrite) clear(dw);
  const Index units = spec.units, classes = spec.held(), at_a_time = rows_at_a_time(rows, spec.vocabulary);
  float* const logits = values_.take<float>(activation_floats(precision_, at_a_time * classes));
  void* const workspace = workspace_.take<std::byte>(Products::kWorkspaceBytes);
  ProductSpec weights{.m = units, .n = classes, .k = 0, .transpose_b = true, .floats = true};
  for (Index first = 0; first < rows; first += at_a_time) {
    const Index count = std::min(at_a_time, rows - first), offset = activation_floats(precision_, first * units);
    const float* const x_rows = x.data() + offset;
    products_.multiply(queue(), {.m = classes, .n = count, .k = units, .transpose_a = true},
                       {.a = rounded(w), .b = x_rows, .d = logits, .workspace = workspace});
    const auto own = labels.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    add_head_losses(spec, own, gradients, group, logits, sums);
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

void CudaBackend::add_head_losses(const HeadSpec& spec, std::span<const std::int32_t> labels,
                                  const HeadGradients& wanted, TensorGroup* group, float* logits, LossSums& sums) {
  const Index rows = std::ssize(labels);
  auto* const found = partials_.take<Found>(rows);
  const auto* const uploaded = queue().upload(labels);
  if (group != nullptr) {
    find_shared_losses(spec, rows, uploaded, wanted, *group, logits, found);
  } else {
    const bool wants_gradient = !wanted.dx.empty() || !wanted.dw.empty();
    with_type([&]<typename T>(T) {
      queue().launch(head_losses<T>, {.blocks = static_cast<unsigned>(rows), .threads = kBlock}, spec.vocabulary,
                     uploaded, spec.smoothing, wanted.scale, wants_gradient, reinterpret_cast<T*>(logits), found);
    });
  }
  add_found(found, rows, std::count_if(labels.begin(), labels.end(), [](std::int32_t label) { return label >= 0; }),
            sums);
}

void CudaBackend::find_shared_losses(const HeadSpec& spec, Index rows, const std::int32_t* const* labels,
                                     const HeadGradients& wanted, TensorGroup& group, float* logits, Found* found) {
  const Index numbers = rows * spec.leaves * 4;
  auto* const shared = shared_.take<double>(numbers + rows);
  auto* const sums = reinterpret_cast<LeafSums*>(shared);
  double* const before = shared + numbers;
  const Leaves leaves{.count = spec.leaves, .first = spec.first, .end = spec.first + spec.count};
  const Index first_class = spec.token(spec.first);
  const bool wants_gradient = !wanted.dx.empty() || !wanted.dw.empty();
  const Grid grid{.blocks = static_cast<unsigned>(rows), .threads = kBlock};
  with_type([&]<typename T>(T) {
    queue().launch(sum_own_logits<T>, grid, spec.held(), first_class, leaves, labels,
                   static_cast<const T*>(static_cast<const void*>(logits)), sums);
  });
  group.sum({shared, static_cast<std::size_t>(numbers)});
  with_type([&]<typename T>(T) {
    queue().launch(differentiate_own_logits<T>, grid, spec.held(), first_class, spec.vocabulary, spec.leaves, labels,
                   static_cast<const LeafSums*>(sums), spec.smoothing, wanted.scale, wants_gradient,
                   reinterpret_cast<T*>(logits), before);
  });
  group.sum({before, static_cast<std::size_t>(rows)});
  queue().launch(find_losses, grid_for(rows), rows, spec.vocabulary, spec.leaves, labels,
                 static_cast<const LeafSums*>(sums), static_cast<const double*>(before), spec.smoothing, found);
}

}  // namespace unisono::kernels::cuda
