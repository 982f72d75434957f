#include "cpu/loops_isa/means.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

// Lanes are examples and each has its own statistics, so that a vector of lanes is normalised at once. Only the
// gradients of gamma and beta are summed across a vector.

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

void moments(const Columns& columns, const float* x, float epsilon, float* mean, float* inverse) {
  float means[1][kMaximumLanes];
  means_of<1>(columns, means, [&](Vector* sum, Count e, Count lane) { *sum += load(x + e * columns.stride + lane); });
  for (Count lane = 0; lane < columns.lanes; ++lane) mean[lane] = means[0][lane];
  means_of<1>(columns, means, [&](Vector* sum, Count e, Count lane) {
    const Vector v = load(x + e * columns.stride + lane) - load(mean + lane);
    *sum += v * v;
  });
  for (Count lane = 0; lane < columns.lanes; ++lane) inverse[lane] = 1.0F / __builtin_sqrtf(means[0][lane] + epsilon);
}

void forward(const Columns& columns, const float* x, const float* mean, const float* inverse, const float* gamma,
             const float* beta, float* y) {
  for (Count e = 0; e < columns.elements; ++e) {
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Count at = e * columns.stride + lane;
      store(y + at, (load(x + at) - load(mean + lane)) * load(inverse + lane) * gamma[e] + beta[e]);
    }
  }
}

void backward(const Columns& columns, const float* x, const float* mean, const float* inverse, const float* gamma,
              const float* dy, float* dx) {
  const auto normal = [&](Count e, Count lane) {
    return (load(x + e * columns.stride + lane) - load(mean + lane)) * load(inverse + lane);
  };
  float means[2][kMaximumLanes];  // of d = gamma dy, and of d x̂
  means_of<2>(columns, means, [&](Vector* sums, Count e, Count lane) {
    const Vector d = load(dy + e * columns.stride + lane) * gamma[e];
    sums[0] += d;
    sums[1] += d * normal(e, lane);
  });
  for (Count e = 0; e < columns.elements; ++e) {
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Count at = e * columns.stride + lane;
      const Vector through = load(means[0] + lane) + normal(e, lane) * load(means[1] + lane);
      store(dx + at, load(inverse + lane) * (load(dy + at) * gamma[e] - through));
    }
  }
}

void parameters(const Columns& columns, const float* x, const float* mean, const float* inverse, const float* dy,
                double* dgamma, double* dbeta) {
  std::int32_t used[kMaximumLanes];
  for (Count lane = 0; lane < kMaximumLanes; ++lane) used[lane] = lane < columns.used ? -1 : 0;
  for (Count e = 0; e < columns.elements; ++e) {
    Vector products{}, sum{};
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Count at = e * columns.stride + lane;
      const Vector d = load(dy + at);
      const Vector normal = (load(x + at) - load(mean + lane)) * load(inverse + lane);
      sum += keep(load(used + lane), d);
      products += keep(load(used + lane), d * normal);
    }
    dgamma[e] += total(products);
    dbeta[e] += total(sum);
  }
}

}  // namespace

void add_layer_norm(Loops& loops) { loops.layer_norm = {moments, forward, backward, parameters}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
