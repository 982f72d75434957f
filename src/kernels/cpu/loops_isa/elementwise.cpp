#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/philox.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {

// GELU is the exact one, x Φ(x) with the normal distribution function Φ (Hendrycks & Gimpel 2016):
// y' = Φ(x) + x φ(x), φ the normal density. SiLU is x σ(x) (Elfwing et al. 2018), y' = σ + x σ (1 − σ).
// GELU by tanh is ½ x (1 + tanh(u)) = x σ(v), v = 2u = √(8/π) (x + 0.044715 x³): y' = σ(v) + x v' σ(v) σ(−v).

namespace {

constexpr float kInverseRootTwoPi = 0x1.988454p-2F;

template <typename Function>
void map(const float* x, float* y, Count n, Function function) {
#pragma omp simd
  for (Count i = 0; i < n; ++i) y[i] = function(x[i]);
}

constexpr float kTanhLinear = 0x1.988454p+0F;  // √(8/π)
constexpr float kTanhCubic = 0x1.2444f2p-4F;   // √(8/π) · 0.044715

/// |x|, at most 16: from there on σ(±v) is 0 or 1.
float tanh_size(float x) {
  const float size = __builtin_fabsf(x);
  return size > 16.0F ? 16.0F : size;
}

float gelu_by_tanh(float x) {
  const float size = tanh_size(x), e = exponential(-size * (kTanhLinear + kTanhCubic * (size * size)));
  const float t = 1.0F / (1.0F + e);  // σ(|v|); σ(−|v|) = e t
  return x * (x > 0.0F ? t : e * t);
}

float gelu_by_tanh_derivative(float x) {
  const float size = tanh_size(x), square = size * size;
  const float e = exponential(-size * (kTanhLinear + kTanhCubic * square)), t = 1.0F / (1.0F + e);
  const float rise = size * (kTanhLinear + 3.0F * kTanhCubic * square) * (e * t * t);
  return x > 0.0F ? t + rise : e * t - rise;
}

void forward(Activation activation, float a, const float* x, float* y, Count n) {
  switch (activation) {
    case Activation::none:
      return map(x, y, n, [](float v) { return v; });
    case Activation::relu:
      return map(x, y, n, [](float v) { return 0.0F > v ? 0.0F : v; });  // NaN stays
    case Activation::gelu:
      return map(x, y, n, [](float v) { return v * normal_distribution(v, bell(v)); });
    case Activation::tanh:
      return map(x, y, n, hyperbolic_tangent);
    case Activation::sigmoid:
      return map(x, y, n, logistic);
    case Activation::silu:
      return map(x, y, n, [](float v) { return v * logistic(v); });
    case Activation::leaky_relu:
      return map(x, y, n, [a](float v) { return v > 0.0F ? v : a * v; });
    case Activation::elu:
      return map(x, y, n, [a](float v) { return v > 0.0F ? v : a * exponential_less_one(v); });
    case Activation::softplus:
      return map(x, y, n, [](float v) { return (v < 0.0F ? 0.0F : v) + softplus_tail(v); });
    case Activation::gelu_tanh:
      return map(x, y, n, gelu_by_tanh);
  }
}

/// dx = dy · derivative(v); v is x or y, whichever the derivative is simpler in
template <typename Derivative>
void chain(const float* v, const float* dy, float* dx, Count n, Derivative derivative) {
#pragma omp simd
  for (Count i = 0; i < n; ++i) dx[i] = dy[i] * derivative(v[i]);
}

float gelu_derivative(float x) {
  const float b = bell(x);
  return normal_distribution(x, b) + x * b * kInverseRootTwoPi;
}

float silu_derivative(float x) {
  const float s = logistic(x);
  return s + x * s * (1.0F - s);
}

void backward(Activation activation, float a, const float* v, const float* dy, float* dx, Count n) {
  switch (activation) {
    case Activation::none:
      return chain(dy, dy, dx, n, [](float) { return 1.0F; });
    case Activation::relu:
      return chain(v, dy, dx, n, [](float y) { return y > 0.0F ? 1.0F : 0.0F; });
    case Activation::gelu:
      return chain(v, dy, dx, n, gelu_derivative);
    case Activation::tanh:
      return chain(v, dy, dx, n, [](float y) { return 1.0F - y * y; });
    case Activation::sigmoid:
      return chain(v, dy, dx, n, [](float y) { return y * (1.0F - y); });
    case Activation::silu:
      return chain(v, dy, dx, n, silu_derivative);
    case Activation::leaky_relu:
      return chain(v, dy, dx, n, [a](float y) { return y > 0.0F ? 1.0F : a; });
    case Activation::elu:
      return chain(v, dy, dx, n, [a](float y) { return y > 0.0F ? 1.0F : y + a; });
    case Activation::softplus:
      return chain(v, dy, dx, n, [](float y) { return -exponential_less_one(-y); });  // σ(x) = 1 − e^−y
    case Activation::gelu_tanh:
      return chain(v, dy, dx, n, gelu_by_tanh_derivative);
  }
}

}  // namespace

void add_activation(Loops& loops) { loops.activation = {forward, backward}; }

// Philox 4x32-10 (see base/random.hpp) for a block's examples at once: four random words for each, which are those of
// four elements that follow one another in canonical order.

namespace {

/// words[i][lane] = word i of philox(key, {position, epoch, example}) for all lanes.
void draw(const DropoutBlock& block, std::uint32_t position, std::uint32_t (*words)[kMaximumLanes]) {
  const Words none{};
  for (Count lane = 0; lane < block.width; lane += kWords) {
    const PhiloxWords random =
        philox(block.key, {none + position, none + block.epoch, load_words(block.example_low + lane),
                           load_words(block.example_high + lane)});
    store_words(words[0] + lane, random.c0);
    store_words(words[1] + lane, random.c1);
    store_words(words[2] + lane, random.c2);
    store_words(words[3] + lane, random.c3);
  }
}

void apply(const DropoutBlock& block, Count first, Count last, const float* x, float* y) {
  std::uint32_t words[4][kMaximumLanes];
  for (Count channel = 0; channel < block.channels; ++channel) {
    const Count start = channel * block.pixels, end = start + last;
    for (Count e = start + first; e < end; ++e) {
      const Count number = block.first + e;
      if (e == start + first || number % 4 == 0) draw(block, static_cast<std::uint32_t>(number / 4), words);
      const std::uint32_t* random = words[number % 4];
      const Count at = ((e - start) * block.channels + channel) * block.width;
#pragma omp simd
      for (Count lane = 0; lane < block.width; ++lane) {
        const float kept = block.scale * x[at + lane];
        y[at + lane] = (random[lane] >> 8) < block.threshold ? 0.0F : kept;
      }
    }
  }
}

}  // namespace

void add_dropout(Loops& loops) { loops.dropout = {apply}; }

namespace {

/// One channel of dy: masks it where there is a y, and adds lane l to sums[l mod 16].
template <bool masked, bool summed>
inline void channel(Count width, const float* y, float* dy, float* sums) {
  constexpr Count kSums = 16 / kLanes;  // registers
  Vector parts[kSums] = {};
  for (Count first = 0; first < width; first += 16) {
#pragma GCC unroll 4
    for (Count part = 0; part < kSums; ++part) {
      const Count at = first + part * kLanes;
      if (at >= width) break;  // a width of 8
      Vector value = load(dy + at);
      if (masked) {
        value = load(y + at) > 0.0F ? value : Vector{};
        store(dy + at, value);
      }
      parts[part] += value;
    }
  }
  if (!summed) return;
#pragma GCC unroll 4
  for (Count part = 0; part < kSums; ++part) store(sums + part * kLanes, load(sums + part * kLanes) + parts[part]);
}

template <bool masked, bool summed>
void channels(Count count, Count width, const float* y, float* dy, float* sums) {
  for (Count c = 0; c < count; ++c) {
    channel<masked, summed>(width, masked ? y + c * width : nullptr, dy + c * width, summed ? sums + c * 16 : nullptr);
  }
}

void mask_and_sum(Count count, Count width, const float* y, float* dy, float* sums) {
  if (y != nullptr && sums != nullptr) {
    channels<true, true>(count, width, y, dy, sums);
  } else if (y != nullptr) {
    channels<true, false>(count, width, y, dy, sums);
  } else if (sums != nullptr) {
    channels<false, true>(count, width, y, dy, sums);
  }
}

/// Some channels, at most kLanes, of all rows. Runs of kRun rows are added up first, so that rounding errors grow with
/// kRun + rows / kRun at most.
template <bool masked, typename Lanes>
void rows_of(Count rows, Count channels, Lanes lanes, const float* y, float* dy, float* sums) {
  constexpr Count kRun = 64;
  Vector sum{};
  for (Count first = 0; first < rows; first += kRun) {
    const Count last = rows - first < kRun ? rows : first + kRun;
    Vector run{};
    for (Count row = first; row < last; ++row) {
      float* const at = dy + row * channels;
      Vector value = lanes.get(at);
      if (masked) {
        value = lanes.get(y + row * channels) > 0.0F ? value : Vector{};
        lanes.put(at, value);
      }
      run += value;
    }
    sum += run;
  }
  if (sums != nullptr) lanes.put(sums, lanes.get(sums) + sum);
}

void mask_and_sum_rows(Count rows, Count channels, const float* y, float* dy, float* sums) {
  for_each_vector(channels, [&](Count c, auto lanes) {
    float* const sum = sums == nullptr ? nullptr : sums + c;
    if (y != nullptr) {
      rows_of<true>(rows, channels, lanes, y + c, dy + c, sum);
    } else {
      rows_of<false>(rows, channels, lanes, nullptr, dy + c, sum);
    }
  });
}

}  // namespace

void add_mask(Loops& loops) {
  loops.mask_and_sum = mask_and_sum;
  loops.mask_and_sum_rows = mask_and_sum_rows;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
