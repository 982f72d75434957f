#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "student_cdf.hpp"
#include "unisono/records/statistics.hpp"

namespace unisono::records {
namespace {

/// Of a reference value to 15 digits.
Approx precisely(double value) { return Approx(value).epsilon(1e-11); }

TEST_CASE("the incomplete beta function and Student's t are those of scipy", "[study]") {
  CHECK(incomplete_beta(0.5, 0.5, 0.3) == precisely(0.3690101195655454));
  CHECK(incomplete_beta(2, 0.5, 0.9) == precisely(0.5414697392755847));
  CHECK(incomplete_beta(5, 0.5, 0.1) == precisely(2.570589699229373e-06));
  CHECK(incomplete_beta(50, 0.5, 0.99) == precisely(0.31730439787419623));
  CHECK(incomplete_beta(1000, 0.5, 0.999) == precisely(0.15724727426683946));
  CHECK(incomplete_beta(3, 4, 0) == 0);
  CHECK(incomplete_beta(3, 4, 1) == 1);

  CHECK(student_cdf(0.5, 1) == precisely(0.6475836176504333));
  CHECK(student_cdf(2, 2) == precisely(0.908248290463863));
  CHECK(student_cdf(-1.3, 4) == precisely(0.13172579823561206));
  CHECK(student_cdf(3, 60) == precisely(0.9980361513335138));
  CHECK(student_cdf(1.96, 1e6) == Approx(0.9750019662073651).epsilon(1e-9));  // cancellation in lgamma
  CHECK(student_two_sided(-8, 9) == precisely(2.213481680940017e-05));
  CHECK(student_two_sided(30, 20) == precisely(4.19522532399964e-18));

  // scipy's quantiles have ten digits.
  CHECK(student_quantile(0.975, 1) == precisely(std::tan(0.475 * std::acos(-1.0))));
  CHECK(student_quantile(0.975, 4) == Approx(2.7764451051977987).epsilon(1e-9));
  CHECK(student_quantile(0.975, 19) == Approx(2.093024054408263).epsilon(1e-9));
  CHECK(student_quantile(0.025, 9) == Approx(-2.262157162740992).epsilon(1e-9));
  CHECK(student_quantile(0.9995, 2) == Approx(31.599054577041514).epsilon(1e-9));
  CHECK(student_quantile(0.5, 3) == 0);
}

TEST_CASE("the power of paired tests is that of scipy's noncentral t", "[study]") {
  CHECK(power_of_pairs(0.5, 0.3, 5) == Approx(0.7932202350526217).epsilon(1e-6));
  CHECK(power_of_pairs(0.5, 0.3, 10) == Approx(0.9964471090658192).epsilon(1e-6));
  CHECK(power_of_pairs(0.5, 0.3, 20) == Approx(0.9999998142689766).epsilon(1e-6));
  CHECK(power_of_pairs(1, 1, 2) == Approx(0.0928091550544744).epsilon(1e-6));
  CHECK(power_of_pairs(-0.1, 0.3, 20) == Approx(0.2935232601528867).epsilon(1e-6));
  CHECK(power_of_pairs(0, 1, 10) == Approx(0.05).epsilon(1e-6));
  // Half a point where each training's seeds deviate by 0.3, and those of the two ways independently.
  const double deviation = 0.3 * std::sqrt(2.0);
  CHECK(power_of_pairs(0.5, deviation, 5) == Approx(0.5163812695871646).epsilon(1e-6));
  CHECK(power_of_pairs(0.5, deviation, 10) == Approx(0.9111470120334706).epsilon(1e-6));
  CHECK(power_of_pairs(0.5, deviation, 20) == Approx(0.9987745169662422).epsilon(1e-6));
  const std::int64_t needed = pairs_needed(0.5, deviation);
  CHECK(power_of_pairs(0.5, deviation, needed) >= 0.8);
  CHECK(power_of_pairs(0.5, deviation, needed - 1) < 0.8);
  CHECK(pairs_needed(0, 1) == 0);
}

TEST_CASE("a paired difference has the interval and the p of scipy's ttest_rel", "[study]") {
  const std::vector<double> a = {0.91, 0.93, 0.92, 0.95, 0.94}, b = {0.90, 0.925, 0.92, 0.93, 0.945};
  const PairedDifference difference = paired_difference(a, b);
  CHECK(difference.mean == precisely(0.006));
  CHECK(difference.deviation == precisely(0.00961769203083564));
  CHECK(difference.half_width == precisely(0.011941941940499884));
  CHECK(difference.p == precisely(0.23549636025944282));
  CHECK(difference.is_within(0.018));  // 0.006 + 0.0119 = 0.0179
  CHECK_FALSE(difference.is_within(0.0179));
}

TEST_CASE("equal differences are tested by their signs", "[study]") {
  const std::vector<double> a(4, 0.75), b(4, 0.5);
  CHECK(paired_difference(a, b).p == 0.125);
  CHECK(paired_difference(a, a).p == 1);
  CHECK(paired_difference(a, a).is_within(0.001));
  const std::vector<double> one = {1};
  CHECK(paired_difference(one, one).p == 1);
  CHECK_FALSE(paired_difference(one, one).is_within(1e9));
}

TEST_CASE("Holm's correction, by hand", "[study]") {
  // In ascending order 0.01 · 4, 0.015 · 3, 0.03 · 2, 0.04 · 1, each at least the one before it.
  const std::array p = {0.03, 0.01, 0.04, 0.015};
  const std::vector<double> adjusted = holm(p);
  CHECK(adjusted[1] == Approx(0.04));
  CHECK(adjusted[3] == Approx(0.045));
  CHECK(adjusted[0] == Approx(0.06));
  CHECK(adjusted[2] == Approx(0.06));
  const std::array large = {0.9, 0.8};
  CHECK(holm(large) == std::vector<double>{1, 1});
}

TEST_CASE("each verdict", "[study]") {
  const std::vector<double> serial = {0.900, 0.905, 0.895, 0.902, 0.898, 0.901};
  const auto plus = [&](double shift, double spread) {
    std::vector<double> values = serial;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += shift + (i % 2 == 0 ? spread : -spread);
    return values;
  };
  std::vector<Pairs> variants = {{.variant = serial, .reference = serial, .same_bits = true},
                                 {.variant = serial, .reference = serial, .within_rounding = true},
                                 {.variant = plus(0.0005, 0.001), .reference = serial},  // 0.0005 ± 0.0011
                                 {.variant = plus(0.02, 0.001), .reference = serial},
                                 {.variant = plus(-0.02, 0.001), .reference = serial},
                                 {.variant = plus(0.002, 0.01), .reference = serial},
                                 {.variant = {}, .reference = {}, .diverged = 6}};
  const std::vector<Judgement> judged = judge(variants, 0.003, /*larger_is_better=*/true);
  const std::vector<Verdict> expected = {Verdict::same_bits, Verdict::rounding, Verdict::equivalent, Verdict::better,
                                         Verdict::worse,     Verdict::unclear,  Verdict::diverged};
  for (std::size_t i = 0; i < judged.size(); ++i) {
    INFO(i);
    CHECK(judged[i].verdict == expected[i]);
  }
  CHECK(verdict_text(judged[4]) == "worse by 0.02 ± 0.0011");
  CHECK(verdict_text(judged[0]) == "equal bit for bit");
  CHECK(verdict_text(judged[5]).starts_with("too few seeds to tell; about "));
  std::vector<double> failed_twice = serial;
  for (const std::size_t seed : {1U, 4U}) failed_twice[seed] -= 0.75;
  const Pairs failing[] = {{.variant = failed_twice, .reference = serial}};
  CHECK(verdict_text(judge(failing, 0.003, true)[0]) == "too few seeds to tell: differences of -0.75 to +0");
  CHECK(judged[3].p == Approx(4 * judged[3].difference.p));  // of four tests it has the smallest p
  // What is undefined for a seed is neither better nor worse, and asks no question that others pay for.
  const double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> undefined = serial, nothing(serial.size(), none);
  undefined[2] = none;
  const Pairs missing[] = {{.variant = plus(0.02, 0.001), .reference = serial},
                           {.variant = undefined, .reference = serial},
                           {.variant = serial, .reference = undefined},
                           {.variant = nothing, .reference = nothing},
                           {.variant = nothing, .reference = nothing, .same_bits = true}};
  const std::vector<Judgement> some = judge(missing, 0.003, true);
  CHECK((some[0].verdict == Verdict::better && some[0].p == some[0].difference.p));
  for (const std::size_t i : {1U, 2U, 3U}) CHECK(verdict_text(some[i]) == "undefined");
  CHECK(some[4].verdict == Verdict::same_bits);
  // Where smaller is better, as of a loss, better and worse change places.
  CHECK(judge(variants, 0.003, false)[3].verdict == Verdict::worse);
}

}  // namespace
}  // namespace unisono::records
