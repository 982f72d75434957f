#include "validation/intervals.hpp"

#include <cmath>
#include <limits>

namespace unisono::experiment {
namespace {

/// The continued fraction of the incomplete beta function, by Lentz's method. Converges quickly for x < (a + 1)/(a + b +
/// 2). DLMF 8.17.22; Press et al., Numerical Recipes, 6.4.
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300, kClose = 1e-16;
  constexpr int kMostTerms = 10000;
  const auto not_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m < kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / not_zero(1 + even * d);
    c = not_zero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / not_zero(1 + odd * d);
    c = not_zero(1 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1) < kClose) break;
  }
  return fraction;
}

/// I_x(a, b), the regularised incomplete beta function. \param rest 1 − x
double incomplete_beta(double x, double rest, double a, double b) {
  if (x <= 0) return 0;
  if (rest <= 0) return 1;
  const double log_front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log(rest);
  const double front = std::exp(log_front);
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
  return 1 - front * beta_fraction(rest, b, a) / b;
}

Interval interval(std::span<const double> values, double ratio, double level) {
  const auto count = static_cast<double>(values.size());
  Interval found;
  for (const double value : values) found.mean += value / count;
  double squares = 0;
  for (const double value : values) squares += (value - found.mean) * (value - found.mean);
  found.low = found.high = std::numeric_limits<double>::quiet_NaN();
  if (values.size() < 2) return found;
  found.deviation = std::sqrt(squares / (count - 1));
  const double t = student_quantile((1 + level) / 2, count - 1);
  const double half = t * found.deviation * std::sqrt(1 / count + ratio);
  found.low = found.mean - half;
  found.high = found.mean + half;
  return found;
}

}  // namespace

double student_cdf(double t, double degrees) {
  const double squared = t * t;
  // P(|T| > |t|) = I_x(degrees/2, 1/2) with x = degrees/(degrees + t²).
  const double outside =
      incomplete_beta(degrees / (degrees + squared), squared / (degrees + squared), degrees / 2, 0.5);
  return t > 0 ? 1 - outside / 2 : outside / 2;
}

double student_quantile(double p, double degrees) {
  if (p < 0.5) return -student_quantile(1 - p, degrees);
  double low = 0, high = 1;
  while (student_cdf(high, degrees) < p && high < 1e300) high *= 2;
  constexpr int kBits = 100;  // of a number between `low` and `high`
  for (int i = 0; i < kBits && high - low > 1e-16 * high; ++i) {
    const double middle = (low + high) / 2;
    (student_cdf(middle, degrees) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

Interval mean_interval(std::span<const double> values, double level) { return interval(values, 0, level); }

Interval corrected_interval(std::span<const double> values, double ratio, double level) {
  return interval(values, ratio, level);
}

}  // namespace unisono::experiment
