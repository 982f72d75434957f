#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "unisono/base/random.hpp"

// What tests of the CPU's kernels share: odd shapes, values in canonical order and on the device, every instruction set
// and several threads.

namespace unisono::kernels::cpu {

using Floats = std::vector<float>;

inline constexpr double kRoundoff = 0x1p-24;  ///< u: one rounding to float errs by at most u times the result

/// A batch of examples.
struct Shape {
  Extent extent;
  Index batch = 1;
  Index size() const { return batch * extent.size(); }
  std::string text() const {
    return std::to_string(batch) + " × " + std::to_string(extent.channels) + " × " + std::to_string(extent.height) +
           " × " + std::to_string(extent.width);
  }
};

/// Batches that fill blocks of lanes in each way, and few and odd channels.
inline constexpr Index kBatches[] = {0, 1, 3, 16, 17, 64, 65, 100, 130}, kChannels[] = {1, 3, 16, 20};

/// Such batches of small images: each batch with each number of channels, and each image with each of both; every
/// combination of all three where UNISONO_ALL_SHAPES is set in the environment, as in the test kernels_all_shapes.
inline std::vector<Shape> odd_shapes() {
  constexpr std::pair<Index, Index> kImages[] = {{1, 1}, {2, 3}, {4, 4}, {7, 5}};
  const bool all = std::getenv("UNISONO_ALL_SHAPES") != nullptr;
  std::vector<Shape> shapes;
  for (std::size_t b = 0; b < std::size(kBatches); ++b) {
    for (std::size_t c = 0; c < std::size(kChannels); ++c) {
      for (std::size_t i = 0; i < std::size(kImages); ++i) {
        if (!all && i != (b + c) % std::size(kImages)) continue;
        shapes.push_back({{kChannels[c], kImages[i].first, kImages[i].second}, kBatches[b]});
      }
    }
  }
  return shapes;
}

/// Uniform in [low, high), another sequence for each `stream`.
inline Floats random_floats(Index count, std::uint64_t stream, float low = -1, float high = 1) {
  RandomStream random(1, Purpose::test, stream);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = random.uniform(low, high);
  return values;
}

inline Lanes lanes_of(const CpuBackend& backend, const Shape& shape) {
  return Lanes::of(backend.methods().innermost_of(shape.extent, shape.batch), shape.batch);
}

/// Writes a value into all lanes that hold no example: what layers may leave there must not count.
inline void fill_unused(const CpuBackend& backend, const Shape& shape, MutableView activations, float value) {
  const Lanes lanes = lanes_of(backend, shape);
  for (Index i = 0; i < lanes.blocks * shape.extent.size(); ++i) {
    const Index used = lanes.used(i / shape.extent.size());
    std::fill_n(activations.data() + i * lanes.width + used, lanes.width - used, value);
  }
  const Index values = lanes.blocks * lanes.block_size(shape.extent);
  std::fill(activations.begin() + values, activations.end(), value);
}

/// The largest absolute value in lanes that hold no example.
inline float largest_unused(const CpuBackend& backend, const Shape& shape, View activations) {
  const Lanes lanes = lanes_of(backend, shape);
  float largest = 0;
  for (Index i = 0; i < lanes.blocks * shape.extent.size(); ++i) {
    for (Index lane = lanes.used(i / shape.extent.size()); lane < lanes.width; ++lane) {
      const float size = std::abs(activations[static_cast<std::size_t>(i * lanes.width + lane)]);
      largest = size <= largest ? largest : size;  // NaN is larger
    }
  }
  return largest;
}

/// Activations from canonical values. \param unused what lanes without an example hold
inline Buffer to_device(CpuBackend& backend, const Shape& shape, View values, float unused = 0) {
  Buffer buffer(backend.activation_size(shape.extent, shape.batch));
  backend.load(shape.extent, shape.batch, values, buffer.view());
  fill_unused(backend, shape, buffer.view(), unused);
  return buffer;
}

/// Activations to be overwritten: as yet they hold what no result may contain.
inline Buffer fresh(CpuBackend& backend, const Shape& shape) {
  Buffer buffer(backend.activation_size(shape.extent, shape.batch));
  std::fill_n(buffer.data(), buffer.size(), std::nanf(""));
  return buffer;
}

inline Floats from_device(CpuBackend& backend, const Shape& shape, const Buffer& buffer) {
  Floats values(static_cast<std::size_t>(shape.size()));
  backend.store(shape.extent, shape.batch, buffer.view(), values);
  return values;
}

/// Values with ties: multiples of 1/4 in [−1, 1).
inline Floats coarse_floats(Index count, std::uint64_t stream) {
  Floats values = random_floats(count, stream);
  for (float& value : values) value = std::floor(4 * value) / 4;
  return values;
}

/// What a kernel gave, in canonical order, and the sums that it gave.
struct Outputs {
  std::vector<Floats> tensors;
  std::vector<double> sums;
};

inline bool same_bits(const Outputs& a, const Outputs& b) {
  const auto same = [](const auto& left, const auto& right) {
    return left.size() == right.size() &&
           (left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof left[0]) == 0);
  };
  if (a.tensors.size() != b.tensors.size()) return false;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (!same(a.tensors[i], b.tensors[i])) return false;
  }
  return same(a.sums, b.sums);
}

/// Calls check(run(backend)) with every instruction set, and requires that the number of threads changes no bit.
template <typename Run, typename Check>
void everywhere(const Run& run, const Check& check, const Methods& methods = {}) {
  for (InstructionSet set : available_instruction_sets()) {
    INFO(loops_for(set).name);
    CpuBackend one({.threads = 1, .instruction_set = set, .methods = methods});
    CpuBackend three({.threads = 3, .instruction_set = set, .methods = methods});
    const Outputs outputs = run(one);
    CHECK(same_bits(outputs, run(three)));
    check(outputs);
  }
}

/// The same with the layouts that images have by their shape, and with either layout for all of them. Not Winograd's
/// method, whose errors have another bound.
template <typename Run, typename Check>
void in_all_layouts(const Run& run, const Check& check) {
  using Layout = std::optional<Innermost>;
  for (const Layout& innermost : {Layout(), Layout(Innermost::examples), Layout(Innermost::channels)}) {
    INFO("innermost: " << (!innermost ? "by shape" : *innermost == Innermost::examples ? "examples" : "channels"));
    const Methods methods{.innermost = innermost, .winograd = false};
    everywhere(run, check, methods);
  }
}

/// max |actual − expected| / bound over all elements, where a correct result is at most 1. NaN is infinitely wrong.
/// \param bound of one element's error: a number or a function of the element's index
template <typename Actual, typename Bound>
double excess(const Actual& actual, const std::vector<double>& expected, const Bound& bound) {
  REQUIRE(actual.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double limit = 0;
    if constexpr (std::is_arithmetic_v<Bound>) {
      limit = bound;
    } else {
      limit = bound(i);
    }
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    const double ratio = error == 0 ? 0 : error / limit;
    worst = ratio <= worst ? worst : std::isnan(ratio) ? HUGE_VAL : ratio;
  }
  return worst;
}

inline std::vector<double> widen(View values) { return {values.begin(), values.end()}; }

/// The largest deviation of `gradient` from central differences of f at x, relative to the largest gradient.
///   (f(x + h) − f(x − h)) / 2h errs by h² f‴ / 6 and by ε |f| / h: with h = 10⁻⁴, f and f‴ of order 1 and doubles, by
///   some 10⁻⁸ and 10⁻¹².
template <typename Function>
double gradient_error(const Function& f, std::vector<double> x, const std::vector<double>& gradient) {
  constexpr double h = 1e-4;
  double error = 0, largest = 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + h;
    const double above = f(x);
    x[i] = at - h;
    const double below = f(x);
    x[i] = at;
    error = std::max(error, std::abs((above - below) / (2 * h) - gradient[i]));
    largest = std::max(largest, std::abs(gradient[i]));
  }
  return error / largest;
}

/// Σ a b
inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace unisono::kernels::cpu
