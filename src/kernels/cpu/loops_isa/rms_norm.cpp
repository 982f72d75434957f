#include "cpu/loops_isa/means.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

// As layer normalisation, without means and β: lanes are examples, and each has its own statistic.

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

void inverse(const Columns& columns, const float* x, float epsilon, float* inverse) {
  float means[1][kMaximumLanes];
  means_of<1>(columns, means, [&](Vector* sum, Count e, Count lane) {
    const Vector v = load(x + e * columns.stride + lane);
    *sum += v * v;
  });
  for (Count lane = 0; lane < columns.lanes; ++lane) inverse[lane] = 1.0F / __builtin_sqrtf(means[0][lane] + epsilon);
}

void forward(const Columns& columns, const float* x, const float* inverse, const float* gamma, float* y) {
  for (Count e = 0; e < columns.elements; ++e) {
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Count at = e * columns.stride + lane;
      store(y + at, load(x + at) * load(inverse + lane) * gamma[e]);
    }
  }
}

void backward(const Columns& columns, const float* x, const float* inverse, const float* gamma, const float* dy,
              float* dx) {
  float means[1][kMaximumLanes];  // of d x̂
  means_of<1>(columns, means, [&](Vector* sum, Count e, Count lane) {
    const Count at = e * columns.stride + lane;
    *sum += load(dy + at) * gamma[e] * (load(x + at) * load(inverse + lane));
  });
  for (Count e = 0; e < columns.elements; ++e) {
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Count at = e * columns.stride + lane;
      const Vector own = load(inverse + lane), through = load(x + at) * own * load(means[0] + lane);
      store(dx + at, own * (load(dy + at) * gamma[e] - through));
    }
  }
}

void parameters(const Columns& columns, const float* x, const float* inverse, const float* dy, double* dgamma) {
  std::int32_t used[kMaximumLanes];
  for (Count lane = 0; lane < kMaximumLanes; ++lane) used[lane] = lane < columns.used ? -1 : 0;
  for (Count e = 0; e < columns.elements; ++e) {
    Vector products{};
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Count at = e * columns.stride + lane;
      products += keep(load(used + lane), load(dy + at) * (load(x + at) * load(inverse + lane)));
    }
    dgamma[e] += total(products);
  }
}

}  // namespace

void add_rms_norm(Loops& loops) { loops.rms_norm = {inverse, forward, backward, parameters}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
