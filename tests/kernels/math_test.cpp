#include <cstdint>
#include <limits>

#define UNISONO_ISA as_tests_are_compiled
#include "cpu/loops_isa/math.hpp"
#include "cpu_fixture.hpp"

namespace unisono::kernels::cpu {
namespace {

namespace own = as_tests_are_compiled;

double ulp_of(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent, -125) - 24);
}

/// Floats whose bit patterns are a prime number apart, so that all exponents and much of the mantissas are met; within
/// [low, high].
Floats spread_floats(float low, float high) {
  Floats values;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 2003) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (value >= low && value <= high) values.push_back(value);
  }
  while (values.size() % 16 != 0) values.push_back(0.5F);
  return values;
}

/// The largest error in ulps of the result, where that is a normal float.
template <typename Exact>
double worst_ulps(const Floats& x, const Floats& y, const Exact& exact) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = exact(static_cast<double>(x[i]));
    if (std::abs(expected) < 0x1p-126 || std::abs(expected) > 0x1.fffffep127) continue;
    const double error = std::abs(static_cast<double>(y[i]) - expected) / ulp_of(expected);
    worst = error <= worst ? worst : error;
  }
  return worst;
}

template <typename Function>
Floats map(const Floats& x, const Function& function) {
  Floats y;
  for (float value : x) y.push_back(function(value));
  return y;
}

double exact_normal(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }

}  // namespace

TEST_CASE("elementary functions err by as many ulps as their comments say", "[long][math]") {
  const Floats all = spread_floats(-200, 200), unit = spread_floats(0, 1);
  CHECK(worst_ulps(all, map(all, own::exponential), [](double x) { return std::exp(x); }) < 1.1);
  const Floats down = spread_floats(-200, 88);
  CHECK(worst_ulps(down, map(down, own::exponential_less_one), [](double x) { return std::expm1(x); }) < 1.5);
  CHECK(worst_ulps(unit, map(unit, own::log_one_plus), [](double x) { return std::log1p(x); }) < 2);
  const Floats positive = spread_floats(0x1p-126F, 3e38F);
  CHECK(worst_ulps(positive, map(positive, own::natural_logarithm), [](double x) { return std::log(x); }) < 2);
  CHECK(worst_ulps(all, map(all, own::hyperbolic_tangent), [](double x) { return std::tanh(x); }) < 1.4);
  CHECK(worst_ulps(all, map(all, own::logistic), [](double x) { return 1 / (1 + std::exp(-x)); }) < 2.5);
  CHECK(worst_ulps(all, map(all, own::softplus_tail), [](double x) { return std::log1p(std::exp(-std::fabs(x))); }) <
        3);
  CHECK(worst_ulps(all, map(all, own::bell), [](double x) { return std::exp(-0.5 * x * x); }) < 2);
  const auto normal = [](float x) { return own::normal_distribution(x, own::bell(x)); };
  CHECK(worst_ulps(all, map(all, normal), exact_normal) < 8.5);
}

TEST_CASE("the instruction sets' activations err no more", "[long][math]") {
  const Floats x = spread_floats(-200, 200);
  const auto n = static_cast<Count>(x.size());
  for (InstructionSet set : available_instruction_sets()) {
    const Loops loops = loops_for(set);
    INFO(loops.name);
    Floats y(x.size());
    loops.activation.forward(Activation::tanh, 0, x.data(), y.data(), n);
    CHECK(worst_ulps(x, y, [](double v) { return std::tanh(v); }) < 1.4);
    loops.activation.forward(Activation::sigmoid, 0, x.data(), y.data(), n);
    CHECK(worst_ulps(x, y, [](double v) { return 1 / (1 + std::exp(-v)); }) < 2.5);
    loops.activation.forward(Activation::gelu, 0, x.data(), y.data(), n);
    CHECK(worst_ulps(x, y, [](double v) { return v * exact_normal(v); }) < 9.5);
    const Floats above = spread_floats(-87, 200);  // below, σ(x) is no normal float
    Floats of_above(above.size());
    loops.activation.forward(Activation::silu, 0, above.data(), of_above.data(), static_cast<Count>(above.size()));
    CHECK(worst_ulps(above, of_above, [](double v) { return v / (1 + std::exp(-v)); }) < 3.5);
    loops.activation.forward(Activation::elu, 1, x.data(), y.data(), n);
    CHECK(worst_ulps(x, y, [](double v) { return v > 0 ? v : std::expm1(v); }) < 1.5);
    loops.activation.forward(Activation::softplus, 0, x.data(), y.data(), n);
    CHECK(worst_ulps(x, y, [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::fabs(v))); }) < 3);
  }
}

TEST_CASE("elementary functions keep infinities and NaN", "[math]") {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  CHECK(own::exponential(-infinity) == 0);
  CHECK(own::exponential(infinity) == infinity);
  CHECK(own::exponential(88.7F) < infinity);
  CHECK(own::exponential(0) == 1);
  CHECK(own::exponential_less_one(-infinity) == -1);
  CHECK(own::exponential_less_one(0) == 0);
  CHECK(own::exponential_less_one(infinity) < infinity);
  CHECK(std::isnan(own::exponential_less_one(nan)));
  CHECK(own::hyperbolic_tangent(infinity) == 1);
  CHECK(own::hyperbolic_tangent(-infinity) == -1);
  CHECK(own::hyperbolic_tangent(0) == 0);
  CHECK(own::logistic(-infinity) == 0);
  CHECK(own::logistic(infinity) == 1);
  CHECK(own::softplus_tail(-infinity) == 0);
  CHECK(own::softplus_tail(infinity) == 0);
  CHECK(own::normal_distribution(infinity, own::bell(infinity)) == 1);
  CHECK(own::normal_distribution(-infinity, own::bell(-infinity)) == 0);
  CHECK(own::natural_logarithm(1) == 0);
  CHECK(own::natural_logarithm(0) == -infinity);
  CHECK(own::natural_logarithm(infinity) == infinity);
  CHECK(std::isnan(own::natural_logarithm(-1)));
  CHECK(std::isnan(own::natural_logarithm(nan)));
  CHECK(std::isnan(own::exponential(nan)));
  CHECK(std::isnan(own::hyperbolic_tangent(nan)));
  CHECK(std::isnan(own::logistic(nan)));
  CHECK(std::isnan(own::softplus_tail(nan)));
  CHECK(std::isnan(own::normal_distribution(nan, own::bell(nan))));
}

}  // namespace unisono::kernels::cpu
