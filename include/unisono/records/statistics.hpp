#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

// Comparisons of many ways of training with a reference, over the same seeds.
//   Each seed gives a pair, a training of each; what counts are the differences within pairs, since seeds differ by
//   more than ways do. Their mean is tested against 0 by Student's t test (Biometrika 6, 1908). Holm, Scandinavian
//   Journal of Statistics 6, 1979: the chance that any of several tests finds a difference where there is none remains
//   that of one.
namespace unisono::records {

/// The chance of finding a difference where there is none; intervals hold 1 − kLevel.
inline constexpr double kLevel = 0.05;

/// The differences a_i − b_i of n pairs.
struct PairedDifference {
  std::int64_t pairs = 0;
  double mean = 0;
  double deviation = 0;            ///< standard deviation of the differences; 0 for fewer than two
  double half_width = 0;           ///< half the width of the mean's 95 % interval; infinite for fewer than two pairs
  double p = 1;                    ///< p value, two-sided, for an expected difference of 0
  double lowest = 0, highest = 0;  ///< range of the differences
  double low() const { return mean - half_width; }
  double high() const { return mean + half_width; }
  /// Whether the interval lies inside ±margin.
  bool is_within(double margin) const { return low() > -margin && high() < margin; }
};

/// The differences of pairs, with a t test. Where all are equal there is no deviation to test with: p is then that of
/// the signs, 2^(1 − n).
/// \param a, b of equal length
PairedDifference paired_difference(std::span<const double> a, std::span<const double> b);

/// The p values of several tests, adjusted for their number: where one is at most kLevel there is a difference, in all
/// likelihood without a false one among them.
std::vector<double> holm(std::span<const double> p);

/// The chance that a paired test of n pairs finds an expected difference. \param deviation standard deviation of the
/// pairs' differences
double power_of_pairs(double difference, double deviation, std::int64_t pairs);
/// The fewest pairs whose test finds an expected difference with a chance of 80 %; 0: more than 1,000.
std::int64_t pairs_needed(double difference, double deviation);

double mean_of(std::span<const double> values);
/// The standard deviation, with n − 1 in the denominator; 0 for fewer than two values.
double deviation_of(std::span<const double> values);

/// How a variant of a study compares with the serial run.
enum class Verdict { reference, same_bits, rounding, equivalent, better, worse, unclear, undefined, diverged };

inline constexpr Named<Verdict> kVerdicts[] = {
    {Verdict::reference, "reference", "the serial run itself"},
    {Verdict::same_bits, "equal bit for bit", "every parameter has the same bits, for every seed"},
    {Verdict::rounding, "equal within rounding", "parameters differ by no more than rounding explains, for every seed"},
    {Verdict::equivalent, "equivalent", "the interval of the difference lies inside ± margin"},
    {Verdict::better, "better", "a difference that chance does not explain"},
    {Verdict::worse, "worse", "a difference that chance does not explain"},
    {Verdict::unclear, "too few seeds to tell", "neither a difference nor equivalence is certain"},
    {Verdict::undefined, "undefined", "the metric is undefined for some seeds"},
    {Verdict::diverged, "diverged", "for some seeds, of which the serial run did not diverge"}};

/// What is known of a variant: its metric and the reference's, for each seed for which both came to an end. NaN: the
/// metric is undefined.
struct Pairs {
  std::vector<double> variant = {}, reference = {};
  /// Whether parameters are equal for every seed: bit for bit; within rounding.
  bool same_bits = false, within_rounding = false;
  std::int64_t diverged = 0;  ///< seeds for which only the variant diverged
};

/// For how many seeds the metric of the variant or of the reference is undefined.
std::int64_t count_undefined(const Pairs& pairs);

/// What is said of a variant of a study, and why.
struct Judgement {
  Verdict verdict = Verdict::unclear;
  PairedDifference difference = {};
  double p = 1;  ///< p value of the difference, adjusted for the number of tests
  /// For an unclear verdict, how many seeds would find a difference of the margin; 0: not known.
  std::int64_t seeds_needed = 0;
};

/// Judges all variants of a study together, since the tests of all of them are corrected.
std::vector<Judgement> judge(std::span<const Pairs> variants, double margin, bool larger_is_better);

/// A judgement in words: "better by 0.0051 ± 0.0012", "too few seeds to tell; about 24 would do", "too few seeds to
/// tell: differences of -0.891 to +0.00151".
std::string verdict_text(const Judgement& judgement);

/// A mean over folds with its two-sided confidence interval.
struct Interval {
  double mean = 0;
  double deviation = 0;      ///< standard deviation of the values: √(Σ (x − mean)² / (J − 1))
  double low = 0, high = 0;  ///< NaN where there is only one value
};

/// The interval of J independent values: mean ± t · deviation · √(1/J), with J − 1 degrees of freedom.
Interval mean_interval(std::span<const double> values, double level = 0.95);

/// The interval of J values whose training examples overlap, as in repeated and in randomly drawn folds:
///     mean ± t · deviation · √(1/J + ratio)
/// The plain interval would be too narrow: more repetitions on the same examples say little new.
/// Nadeau & Bengio, "Inference for the generalization error", Machine Learning 52, 2003.
/// \param ratio validation examples / training examples of a fold
Interval corrected_interval(std::span<const double> values, double ratio, double level = 0.95);

}  // namespace unisono::records
