#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

// Layer normalisation of each pixel over its channels, with the channels innermost: a pixel is a row, of which one
// after the other is normalised.

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

struct RowMoments {
  float mean, inverse;
};

RowMoments moments_of(Count n, const float* x, float epsilon) {
  Vector sum{};
  for_each_vector(n, [&](Count i, auto lanes) { sum += lanes.get(x + i); });
  const auto mean = static_cast<float>(total(sum) / static_cast<double>(n));
  std::int32_t used[kLanes];
  for (Count lane = 0; lane < kLanes; ++lane) used[lane] = lane < n % kLanes ? -1 : 0;
  Vector squares{};
  for_each_vector(n, [&](Count i, auto lanes) {
    Vector d = lanes.get(x + i) - mean;
    if (lanes.count < kLanes) d = keep(load(used), d);
    squares += d * d;
  });
  const double variance = total(squares) / static_cast<double>(n);
  return {mean, 1.0F / __builtin_sqrtf(static_cast<float>(variance) + epsilon)};
}

void forward(const PixelRows& rows, const float* x, const float* gamma, const float* beta, float* y) {
  const Count n = rows.channels;
  for (Count row = 0; row < rows.count; ++row, x += n, y += n) {
    const RowMoments own = moments_of(n, x, rows.epsilon);
    for_each_vector(n, [&](Count i, auto lanes) {
      const Vector normal = (lanes.get(x + i) - own.mean) * own.inverse;
      lanes.put(y + i, normal * lanes.get(gamma + i) + lanes.get(beta + i));
    });
  }
}

void backward(const PixelRows& rows, const float* x, const float* gamma, const float* dy, float* dx, float* dgamma,
              float* dbeta) {
  const Count n = rows.channels;
  for (Count row = 0; row < rows.count; ++row, x += n, dy += n) {
    const RowMoments own = moments_of(n, x, rows.epsilon);
    Vector sum{}, products{};  // of d = gamma dy, and of d x̂; in lanes that are not used, gamma and so d is 0
    for_each_vector(n, [&](Count i, auto lanes) {
      const Vector gradient = lanes.get(dy + i), normal = (lanes.get(x + i) - own.mean) * own.inverse;
      const Vector d = gradient * lanes.get(gamma + i);
      sum += d;
      products += d * normal;
      if (dgamma == nullptr) return;
      lanes.put(dgamma + i, lanes.get(dgamma + i) + gradient * normal);
      lanes.put(dbeta + i, lanes.get(dbeta + i) + gradient);
    });
    if (dx == nullptr) continue;
    const auto of_d = static_cast<float>(total(sum) / static_cast<double>(n));
    const auto of_products = static_cast<float>(total(products) / static_cast<double>(n));
    for_each_vector(n, [&](Count i, auto lanes) {
      const Vector normal = (lanes.get(x + i) - own.mean) * own.inverse;
      lanes.put(dx + i, own.inverse * (lanes.get(dy + i) * lanes.get(gamma + i) - (of_d + normal * of_products)));
    });
    dx += n;
  }
}

}  // namespace

void add_pixels_layer_norm(Loops& loops) { loops.pixels_layer_norm = {forward, backward}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
