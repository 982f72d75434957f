#include "unisono/records/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "student.hpp"

namespace unisono::records {

double mean_of(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(std::span<const double> values) {
  if (values.size() < 2 || std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end()) return 0;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

PairedDifference paired_difference(std::span<const double> a, std::span<const double> b) {
  std::vector<double> differences(a.size());
  std::ranges::transform(a, b, differences.begin(), std::minus<>());
  const double n = static_cast<double>(a.size());
  PairedDifference result{.pairs = static_cast<std::int64_t>(a.size()),
                          .mean = mean_of(differences),
                          .deviation = deviation_of(differences)};
  if (!differences.empty()) {
    const auto [lowest, highest] = std::ranges::minmax(differences);
    result.lowest = lowest;
    result.highest = highest;
  }
  if (result.pairs < 2) {
    result.half_width = std::numeric_limits<double>::infinity();
    return result;
  }
  const double error = result.deviation / std::sqrt(n);
  // Equal differences have a deviation of a few roundings.
  if (result.deviation <= 1e-12 * std::abs(result.mean) || result.deviation == 0) {
    result.p = result.mean == 0 ? 1 : std::pow(2.0, 1 - n);
    return result;
  }
  result.half_width = student_quantile(1 - kLevel / 2, n - 1) * error;
  result.p = student_two_sided(result.mean / error, n - 1);
  return result;
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

double power_of_pairs(double difference, double deviation, std::int64_t pairs) {
  if (pairs < 2) return 0;
  if (deviation == 0) return difference == 0 ? kLevel : 1;
  const double freedom = static_cast<double>(pairs - 1);
  const double shift = difference / deviation * std::sqrt(static_cast<double>(pairs));
  return noncentral_two_sided(student_quantile(1 - kLevel / 2, freedom), freedom, std::abs(shift));
}

std::int64_t pairs_needed(double difference, double deviation) {
  constexpr double kWanted = 0.8;
  constexpr std::int64_t kMost = 1000;
  if (difference == 0 || power_of_pairs(difference, deviation, kMost) < kWanted) return 0;
  std::int64_t low = 1, high = kMost;  // power grows with the number of pairs
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (power_of_pairs(difference, deviation, middle) < kWanted ? low : high) = middle;
  }
  return high;
}

std::int64_t count_undefined(const Pairs& pairs) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < pairs.variant.size(); ++i) {
    if (std::isnan(pairs.variant[i]) || std::isnan(pairs.reference[i])) ++count;
  }
  return count;
}

namespace {

/// Whether there is a question that a test could answer: models with the same bits cannot differ.
bool is_tested(const Pairs& pairs) {
  return !pairs.same_bits && !pairs.within_rounding && pairs.diverged == 0 && count_undefined(pairs) == 0;
}

Verdict verdict_of(const Pairs& pairs, const Judgement& judgement, double margin, bool larger_is_better) {
  if (pairs.diverged > 0) return Verdict::diverged;
  if (pairs.same_bits) return Verdict::same_bits;
  if (pairs.within_rounding) return Verdict::rounding;
  if (count_undefined(pairs) > 0) return Verdict::undefined;
  if (judgement.difference.is_within(margin)) return Verdict::equivalent;
  if (judgement.p > kLevel) return Verdict::unclear;
  return (judgement.difference.mean > 0) == larger_is_better ? Verdict::better : Verdict::worse;
}

}  // namespace

std::vector<Judgement> judge(std::span<const Pairs> variants, double margin, bool larger_is_better) {
  std::vector<Judgement> judgements(variants.size());
  std::vector<double> p;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    judgements[i].difference = paired_difference(variants[i].variant, variants[i].reference);
    if (is_tested(variants[i])) p.push_back(judgements[i].difference.p);
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t i = 0, test = 0; i < variants.size(); ++i) {
    Judgement& one = judgements[i];
    one.p = is_tested(variants[i]) ? adjusted[test++] : one.difference.p;
    one.verdict = verdict_of(variants[i], one, margin, larger_is_better);
    if (one.verdict == Verdict::unclear && margin > 0)
      one.seeds_needed = pairs_needed(margin, one.difference.deviation);
  }
  return judgements;
}

std::string verdict_text(const Judgement& judgement) {
  const std::string name(name_of(judgement.verdict, kVerdicts));
  const PairedDifference& difference = judgement.difference;
  if (judgement.verdict == Verdict::better || judgement.verdict == Verdict::worse)
    return fmt::format("{} by {:.3g} ± {:.2g}", name, std::abs(difference.mean), difference.half_width);
  if (judgement.verdict != Verdict::unclear || difference.pairs < 2) return name;
  if (judgement.seeds_needed > difference.pairs)
    return fmt::format("{}; about {} would do", name, judgement.seeds_needed);
  // Some seeds may have failed where others did not: the mean and its interval say little about that.
  return fmt::format("{}: differences of {:+.3g} to {:+.3g}", name, difference.lowest, difference.highest);
}

namespace {

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

Interval mean_interval(std::span<const double> values, double level) { return interval(values, 0, level); }

Interval corrected_interval(std::span<const double> values, double ratio, double level) {
  return interval(values, ratio, level);
}

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
