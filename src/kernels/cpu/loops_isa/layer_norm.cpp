#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

// Lanes are examples and each has its own statistics, so that a vector of lanes is normalised at once and nothing is
// summed across a vector but the gradients of gamma and beta.

namespace unisono::cpu::UNISONO_ISA {
namespace {

/// A sum of many terms, lane by lane: runs of 32 in float, these in double.
class LaneSum {
 public:
  void add(Vector v) {
    run_ += v;
    if (++length_ == kRun) flush();
  }
  Vector mean(Count elements) {
    flush();
    Vector result{};
    for (int i = 0; i < kLanes; ++i) result[i] = static_cast<float>(total_[i] / static_cast<double>(elements));
    return result;
  }

 private:
  static constexpr int kRun = 32;
  void flush() {
    for (int i = 0; i < kLanes; ++i) total_[i] += static_cast<double>(run_[i]);
    run_ = Vector{};
    length_ = 0;
  }

  Vector run_{};
  int length_ = 0;
  double total_[kLanes] = {};
};

/// 1 / √v
Vector inverse_root(Vector v) {
  for (int i = 0; i < kLanes; ++i) v[i] = 1.0F / __builtin_sqrtf(v[i]);
  return v;
}

void moments(const Columns& columns, const float* x, float epsilon, float* mean, float* inverse) {
  for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
    LaneSum sum, squares;
    for (Count e = 0; e < columns.elements; ++e) sum.add(load(x + e * columns.stride + lane));
    const Vector middle = sum.mean(columns.elements);
    for (Count e = 0; e < columns.elements; ++e) {
      const Vector v = load(x + e * columns.stride + lane) - middle;
      squares.add(v * v);
    }
    store(mean + lane, middle);
    store(inverse + lane, inverse_root(squares.mean(columns.elements) + epsilon));
  }
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
  for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
    const Vector middle = load(mean + lane), scale = load(inverse + lane);
    LaneSum sum, products;
    for (Count e = 0; e < columns.elements; ++e) {
      const Count at = e * columns.stride + lane;
      const Vector d = load(dy + at) * gamma[e];
      sum.add(d);
      products.add(d * ((load(x + at) - middle) * scale));
    }
    const Vector mean_d = sum.mean(columns.elements), mean_product = products.mean(columns.elements);
    for (Count e = 0; e < columns.elements; ++e) {
      const Count at = e * columns.stride + lane;
      const Vector normal = (load(x + at) - middle) * scale;
      store(dx + at, scale * (load(dy + at) * gamma[e] - mean_d - normal * mean_product));
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

}  // namespace unisono::cpu::UNISONO_ISA
