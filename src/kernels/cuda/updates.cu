// Update rules: one pass over memory each, all ranges in one launch. In all of them s is the gradient's scale, λ the
// decay of the range. Formulas and papers are in optim.
#include <type_traits>
#include <vector>

#include "cuda/device_code.hpp"
#include "cuda/ranges.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr unsigned kUpdateBlock = 512;
constexpr int kPack = 4;
using Floats = Pack<float, kPack>;

/// s: known only on the device where gradients are clipped.
struct Scale {
  const double* squared_norm;  ///< null: no clipping
  double clip_norm;
  float factor;
  __device__ float value() const {
    if (squared_norm == nullptr) return factor;
    const double norm = static_cast<double>(factor) * sqrt(*squared_norm);
    return norm > clip_norm ? static_cast<float>(clip_norm / norm) * factor : factor;
  }
};

/// The state that a rule keeps for one number.
template <int kStates>
using States = float[kStates == 0 ? 1 : kStates];

/// Vectors of θ's size.
template <int kStates>
struct Vectors {
  const float* g;
  float* theta;
  float* states[kStates == 0 ? 1 : kStates];
};

/// Calls rule.update(g', θ, states, range) for each number of a block's chunk, packs of four at a time: ranges begin
/// and end at multiples of 16.
template <typename Rule>
__global__ void update_chunks(const RangeChunk* chunks, const Rule* staged, const Scale* scale,
                              Vectors<Rule::kStates> vectors) {
  const RangeChunk chunk = chunks[blockIdx.x];
  const Rule rule = *staged;
  const typename Rule::Range range = rule.of(chunk);
  const float s = scale->value();
  for (std::int64_t i = chunk.first + kPack * threadIdx.x; i < chunk.last; i += kPack * blockDim.x) {
    Floats g = *reinterpret_cast<const Floats*>(vectors.g + i), theta = *reinterpret_cast<Floats*>(vectors.theta + i);
    Floats states[Rule::kStates == 0 ? 1 : Rule::kStates];
    for (int k = 0; k < Rule::kStates; ++k) states[k] = *reinterpret_cast<Floats*>(vectors.states[k] + i);
    for (int j = 0; j < kPack; ++j) {
      States<Rule::kStates> own;
      for (int k = 0; k < Rule::kStates; ++k) own[k] = states[k].values[j];
      rule.update(range, s * g.values[j], theta.values[j], own);
      for (int k = 0; k < Rule::kStates; ++k) states[k].values[j] = own[k];
    }
    *reinterpret_cast<Floats*>(vectors.theta + i) = theta;
    for (int k = 0; k < Rule::kStates; ++k) *reinterpret_cast<Floats*>(vectors.states[k] + i) = states[k];
  }
}

/// λ of a chunk's range.
struct Decay {
  float decay;
};

/// The parameters of rules that have one rate for all ranges.
struct OneRate {
  using Range = Decay;
  float rate, decay;
  __device__ Range of(const RangeChunk& chunk) const { return {chunk.decays != 0 ? decay : 0}; }
};

struct Sgd : OneRate {
  static constexpr int kStates = 0;
  __device__ void update(Range range, float g, float& theta, States<0>&) const {
    theta -= rate * (g + range.decay * theta);
  }
};

struct Momentum : OneRate {
  static constexpr int kStates = 1;
  float momentum;
  int nesterov;
  __device__ void update(Range range, float g, float& theta, States<1>& states) const {
    const float gradient = g + range.decay * theta;
    states[0] = momentum * states[0] + gradient;
    theta -= rate * (nesterov != 0 ? gradient + momentum * states[0] : states[0]);
  }
};

struct Adagrad : OneRate {
  static constexpr int kStates = 1;
  float epsilon;
  __device__ void update(Range range, float g, float& theta, States<1>& states) const {
    const float gradient = g + range.decay * theta;
    states[0] += gradient * gradient;
    theta -= rate * gradient / (sqrtf(states[0]) + epsilon);
  }
};

struct Rmsprop : OneRate {
  static constexpr int kStates = 1;
  float smoothing, epsilon;
  __device__ void update(Range range, float g, float& theta, States<1>& states) const {
    const float gradient = g + range.decay * theta;
    states[0] = smoothing * states[0] + (1 - smoothing) * (gradient * gradient);
    theta -= rate * gradient / (sqrtf(states[0]) + epsilon);
  }
};

struct Adam : OneRate {
  static constexpr int kStates = 2;
  float beta1, beta2, epsilon, correction1, correction2;
  int decoupled;
  __device__ void move(Range range, float g, float theta, States<2>& states) const {
    const float gradient = decoupled != 0 ? g : g + range.decay * theta;
    states[0] = beta1 * states[0] + (1 - beta1) * gradient;
    states[1] = beta2 * states[1] + (1 - beta2) * (gradient * gradient);
  }
  __device__ float direction(Range range, float theta, float first, float second) const {
    const float step = correction1 * first / (sqrtf(correction2 * second) + epsilon);
    return decoupled != 0 ? step + range.decay * theta : step;
  }
  __device__ void update(Range range, float g, float& theta, States<2>& states) const {
    move(range, g, theta, states);
    theta -= rate * direction(range, theta, states[0], states[1]);
  }
};

/// ‖a‖ / ‖b‖ from their squares, 1 where either is 0.
__device__ double ratio_of(double a, double b) { return a == 0 || b == 0 ? 1 : sqrt(a) / sqrt(b); }

template <bool kMomentum>
struct Lars {
  static constexpr int kStates = kMomentum ? 1 : 0;
  struct Range {
    float rate, decay;
  };
  const double *theta_norms, *gradient_norms;
  double trust;
  Scale scale;
  float rate, momentum, decay;
  const std::uint8_t* adapted;
  __device__ Range of(const RangeChunk& chunk) const {
    const float lambda = chunk.decays != 0 ? decay : 0;
    if (adapted[chunk.range] == 0) return {rate, lambda};
    const double theta = sqrt(theta_norms[chunk.range]);
    const double g = static_cast<double>(scale.value()) * sqrt(gradient_norms[chunk.range]);
    const double ratio = theta == 0 || g == 0 ? 1 : trust * theta / (g + static_cast<double>(lambda) * theta);
    return {static_cast<float>(static_cast<double>(rate) * ratio), lambda};
  }
  __device__ void update(Range range, float g, float& theta, States<kStates>& states) const {
    const float step = range.rate * (g + range.decay * theta);
    if constexpr (kMomentum) {
      states[0] = momentum * states[0] + step;
      theta -= states[0];
    } else {
      theta -= step;
    }
  }
};

struct LambStep {
  static constexpr int kStates = 2;
  struct Range {
    Decay decay;
    float rate;
  };
  Adam adam;
  const double *theta_norms, *direction_norms;
  __device__ Range of(const RangeChunk& chunk) const {
    const auto ratio = static_cast<float>(ratio_of(theta_norms[chunk.range], direction_norms[chunk.range]));
    return {adam.of(chunk), ratio * adam.rate};
  }
  __device__ void update(const Range& range, float, float& theta, States<2>& states) const {
    theta -= range.rate * adam.direction(range.decay, theta, states[0], states[1]);
  }
};

/// Moves the moments; partial[i] = Σ direction² over chunk i.
__global__ void lamb_chunks(const RangeChunk* chunks, const Adam* staged, const Scale* scale, Vectors<2> vectors,
                            double* partial) {
  const RangeChunk chunk = chunks[blockIdx.x];
  const Adam rule = *staged;
  const Decay range = rule.of(chunk);
  const float s = scale->value();
  double sum = 0;
  for (std::int64_t i = chunk.first + threadIdx.x; i < chunk.last; i += blockDim.x) {
    States<2> own = {vectors.states[0][i], vectors.states[1][i]};
    const float theta = vectors.theta[i];
    rule.move(range, s * vectors.g[i], theta, own);
    vectors.states[0][i] = own[0];
    vectors.states[1][i] = own[1];
    const auto direction = static_cast<double>(rule.direction(range, theta, own[0], own[1]));
    sum += direction * direction;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

Scale scale_of(const GradientScale& scale) {
  return {scale.clip_norm > 0 ? scale.squared_norm.data() : nullptr, scale.clip_norm, scale.factor};
}

Adam adam_of(const AdamStep& step, bool decoupled) {
  return {{step.rate, step.decay}, step.beta1,       step.beta2,       step.epsilon,
          step.correction1,        step.correction2, decoupled ? 1 : 0};
}

/// Starts one launch for all ranges.
template <typename Rule>
void update(Queue& queue, std::span<const UpdateRange> ranges, const Rule& rule, const Scale& scale,
            const Vectors<Rule::kStates>& vectors) {
  if (ranges.empty()) return;
  const RangeChunks cut(ranges);
  const Grid grid{.blocks = static_cast<unsigned>(cut.chunks.size()), .threads = kUpdateBlock};
  const RangeChunk* const chunks = queue.stage(std::span<const RangeChunk>(cut.chunks));
  queue.launch(update_chunks<Rule>, grid, chunks, queue.stage(rule), queue.stage(scale), vectors);
}

}  // namespace

void CudaBackend::sgd_update(const SgdStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                             View g, MutableView theta, MutableView velocity) {
  if (velocity.empty()) {
    update(queue(), ranges, Sgd{{step.rate, step.decay}}, scale_of(scale), Vectors<0>{g.data(), theta.data(), {}});
  } else {
    update(queue(), ranges, Momentum{{step.rate, step.decay}, step.momentum, step.nesterov ? 1 : 0}, scale_of(scale),
           Vectors<1>{g.data(), theta.data(), {velocity.data()}});
  }
}

void CudaBackend::adagrad_update(const AdagradStep& step, const GradientScale& scale,
                                 std::span<const UpdateRange> ranges, View g, MutableView theta,
                                 MutableView accumulator) {
  update(queue(), ranges, Adagrad{{step.rate, step.decay}, step.epsilon}, scale_of(scale),
         Vectors<1>{g.data(), theta.data(), {accumulator.data()}});
}

void CudaBackend::rmsprop_update(const RmspropStep& step, const GradientScale& scale,
                                 std::span<const UpdateRange> ranges, View g, MutableView theta,
                                 MutableView mean_square) {
  update(queue(), ranges, Rmsprop{{step.rate, step.decay}, step.smoothing, step.epsilon}, scale_of(scale),
         Vectors<1>{g.data(), theta.data(), {mean_square.data()}});
}

void CudaBackend::adam_update(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                              View g, MutableView theta, MutableView first, MutableView second) {
  update(queue(), ranges, adam_of(step, step.decoupled), scale_of(scale),
         Vectors<2>{g.data(), theta.data(), {first.data(), second.data()}});
}

void CudaBackend::lars_update(const LarsStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                              const RangeNorms& norms, View g, MutableView theta, MutableView velocity) {
  std::vector<std::uint8_t> adapted;
  for (const UpdateRange& range : ranges) adapted.push_back(range.adapted ? 1 : 0);
  const auto* const staged = queue().stage(std::span<const std::uint8_t>(adapted));
  const auto rule = [&]<bool kMomentum>(std::bool_constant<kMomentum>) {
    return Lars<kMomentum>{.theta_norms = norms.theta.data(),
                           .gradient_norms = norms.other.data(),
                           .trust = step.trust,
                           .scale = scale_of(scale),
                           .rate = step.rate,
                           .momentum = step.momentum,
                           .decay = step.decay,
                           .adapted = staged};
  };
  if (velocity.empty()) {
    update(queue(), ranges, rule(std::false_type()), scale_of(scale), Vectors<0>{g.data(), theta.data(), {}});
  } else {
    update(queue(), ranges, rule(std::true_type()), scale_of(scale),
           Vectors<1>{g.data(), theta.data(), {velocity.data()}});
  }
}

void CudaBackend::lamb_moments(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                               View g, View theta, MutableView first, MutableView second,
                               std::span<double> directions) {
  if (ranges.empty()) return;
  const RangeChunks cut(ranges);
  const auto chunks = static_cast<Index>(cut.chunks.size());
  double* const partial = partials_.take<double>(chunks);
  const RangeChunk* const staged = queue().stage(std::span<const RangeChunk>(cut.chunks));
  const Vectors<2> vectors{g.data(), const_cast<float*>(theta.data()), {first.data(), second.data()}};
  queue().launch(lamb_chunks, {.blocks = static_cast<unsigned>(chunks), .threads = kBlock}, staged,
                 queue().stage(adam_of(step, true)), queue().stage(scale_of(scale)), vectors, partial);
  add_chunks(cut, partial, directions);
}

void CudaBackend::lamb_apply(const AdamStep& step, std::span<const UpdateRange> ranges, const RangeNorms& norms,
                             MutableView theta, View first, View second) {
  const LambStep rule{adam_of(step, true), norms.theta.data(), norms.other.data()};
  update(queue(), ranges, rule, Scale{nullptr, 0, 1},
         Vectors<2>{theta.data(), theta.data(), {const_cast<float*>(first.data()), const_cast<float*>(second.data())}});
}

}  // namespace unisono::kernels::cuda
