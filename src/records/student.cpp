#include "student.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace unisono::records {
namespace {

/// The continued fraction of I_x(a, b), by Lentz's method: Numerical Recipes, 3rd edition, section 6.4.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kPrecise = 1e-15;
  constexpr int kMostTerms = 10000;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double product = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    product *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    product *= d * c;
    if (std::abs(d * c - 1) < kPrecise) break;
  }
  return product;
}

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

}  // namespace

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  // The fraction converges quickly on one side of the mean; the other side follows by symmetry.
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double student_two_sided(double t, double freedom) {
  if (!std::isfinite(t)) return 0;
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double student_cdf(double t, double freedom) {
  const double tail = 0.5 * student_two_sided(t, freedom);
  return t > 0 ? 1 - tail : tail;
}

double student_quantile(double p, double freedom) {
  if (p == 0.5) return 0;
  const double tail = 2 * std::min(p, 1 - p);  // of both sides
  double low = 0, high = 1;
  while (student_two_sided(high, freedom) > tail && high < 1e300) high *= 2;
  for (int i = 0; i < 200 && high - low > std::numeric_limits<double>::epsilon() * high; ++i) {
    const double middle = 0.5 * (low + high);
    (student_two_sided(middle, freedom) > tail ? low : high) = middle;
  }
  return p < 0.5 ? -high : high;
}

double noncentral_two_sided(double critical, double freedom, double shift) {
  // Over S = √(V / freedom), whose deviation is about 1 / √(2 · freedom): Simpson's rule.
  constexpr int kIntervals = 4000;
  const double last = 1 + 12 / std::sqrt(2 * freedom);
  const double scale = std::log(2.0) + freedom / 2 * std::log(freedom / 2) - std::lgamma(freedom / 2);
  const auto integrand = [&](double s) {
    if (s <= 0) return 0.0;
    const double density = std::exp(scale + (freedom - 1) * std::log(s) - freedom * s * s / 2);
    return density * (normal_cdf(shift - critical * s) + normal_cdf(-critical * s - shift));
  };
  const double width = last / kIntervals;
  double sum = 0;
  if (freedom == 1) sum = std::exp(scale) * (normal_cdf(shift) + normal_cdf(-shift));  // the density at 0 is not 0
  for (int i = 1; i <= kIntervals; ++i) sum += (i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2) * integrand(i * width);
  return std::clamp(sum * width / 3, 0.0, 1.0);
}

}  // namespace unisono::records
