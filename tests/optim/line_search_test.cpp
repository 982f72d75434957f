#include "line_search.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <utility>

namespace unisono::optim {
namespace {

/// φ and φ' at a step.
using Line = std::function<std::pair<double, double>(double step)>;

struct Outcome {
  LineAnswer answer;
  LinePoint start, trial;
  int evaluations;
};

Outcome search(LineSearch& search, const Line& line, double first) {
  const auto [value, slope] = line(0);
  Outcome outcome{LineAnswer::evaluate, {0, value, slope}, {}, 0};
  search.start(value, slope, first);
  while (outcome.answer == LineAnswer::evaluate) {
    const auto [f, g] = line(search.step());
    outcome.trial = {search.step(), f, g};
    outcome.answer = search.see(f, g);
    ++outcome.evaluations;
  }
  return outcome;
}

/// The functions of section 5 of Moré and Thuente's paper, by their numbers.
std::pair<double, double> first_function(double a) {
  const double d = a * a + 2;
  return {-a / d, (a * a - 2) / (d * d)};
}
std::pair<double, double> second_function(double a) {
  const double t = a + 0.004;
  return {std::pow(t, 5) - 2 * std::pow(t, 4), 5 * std::pow(t, 4) - 8 * std::pow(t, 3)};
}
std::pair<double, double> third_function(double a) {
  const double beta = 0.01, wave = 39 * std::acos(-1.0) / 2;
  double value = std::abs(1 - a), slope = a < 1 ? -1 : 1;
  if (value < beta) {
    value = (a - 1) * (a - 1) / (2 * beta) + beta / 2;
    slope = (a - 1) / beta;
  }
  return {value + (1 - beta) / wave * std::sin(wave * a), slope + (1 - beta) * std::cos(wave * a)};
}
Line yanai(double b1, double b2) {
  const auto gamma = [](double b) { return std::sqrt(1 + b * b) - b; };
  return [=](double a) {
    const double left = std::hypot(1 - a, b2), right = std::hypot(a, b1);
    return std::pair(gamma(b1) * left + gamma(b2) * right, gamma(b1) * (a - 1) / left + gamma(b2) * a / right);
  };
}

/// Never the approximate test.
constexpr LineConstants exact(double decrease, double curvature) {
  return {.decrease = decrease, .curvature = curvature, .noise = -1};
}

}  // namespace

TEST_CASE("Moré and Thuente's functions are searched with few evaluations", "[line_search]") {
  struct Case {
    Line line;
    LineConstants constants;
    int evaluations[4];  ///< tables 1 to 6 of the paper, from 1e-3, 1e-1, 1e1, 1e3
  };
  const Case cases[] = {
      {first_function, exact(1e-3, 0.1), {6, 3, 1, 4}},      {second_function, exact(0.1, 0.1), {12, 8, 8, 11}},
      {third_function, exact(0.1, 0.1), {12, 12, 10, 13}},   {yanai(0.001, 0.001), exact(1e-3, 1e-3), {4, 1, 3, 4}},
      {yanai(0.01, 0.001), exact(1e-3, 1e-3), {6, 3, 7, 8}}, {yanai(0.001, 0.01), exact(1e-3, 1e-3), {13, 11, 8, 11}}};
  for (const Case& one : cases) {
    for (int i = 0; i < 4; ++i) {
      MoreThuente more_thuente(one.constants);
      const Outcome found = search(more_thuente, one.line, std::pow(10, 2 * i - 3));
      INFO(&one - cases << " from 1e" << 2 * i - 3 << ": " << found.evaluations);
      CHECK(found.answer == LineAnswer::accepted);
      CHECK(more_thuente.test() == LineTest::strong_wolfe);
      CHECK(passes(LineTest::strong_wolfe, found.start, found.trial, one.constants));
      CHECK(found.evaluations == one.evaluations[i]);
    }
  }
}

TEST_CASE("a search goes on with shorter steps where values or slopes are not finite", "[line_search]") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const double wall : {1e-20, 1e-3, 0.7}) {
    for (const std::pair<double, double>& beyond :
         {std::pair(infinity, 1.0), std::pair(nan, nan), std::pair(-1.0, nan)}) {
      // −log(wall − α) has its minimum at wall − 1 and is infinite from `wall` on; −α falls up to there.
      const Line falling = [=](double a) { return a < wall ? std::pair(-a, -1.0) : beyond; };
      const Line curved = [=](double a) {
        return a < wall ? std::pair(-a + a * a / wall, -1.0 + 2 * a / wall) : beyond;
      };
      for (const Line& line : {falling, curved}) {
        MoreThuente more_thuente;
        Armijo armijo;
        for (LineSearch* method : {static_cast<LineSearch*>(&more_thuente), static_cast<LineSearch*>(&armijo)}) {
          INFO(wall);
          const Outcome found = search(*method, line, 1);
          CHECK(found.answer == LineAnswer::accepted);
          CHECK((found.trial.step > 0 && found.trial.step < wall));
          CHECK(passes(method->test(), found.start, found.trial, {}));
        }
      }
    }
  }
}

TEST_CASE("a search fails where no step lowers the function", "[line_search]") {
  const Line rising = [](double a) { return std::pair(a, a > 0 ? 1.0 : -1.0); };
  const Line never_finite = [](double a) { return a > 0 ? std::pair(std::nan(""), 0.0) : std::pair(0.0, -1.0); };
  for (const Line& line : {rising, never_finite}) {
    MoreThuente more_thuente;
    Armijo armijo;
    CHECK(search(more_thuente, line, 1).answer == LineAnswer::failed);
    CHECK(search(armijo, line, 1).answer == LineAnswer::failed);
  }
}

TEST_CASE("slopes find the minimum where values are rounded", "[line_search]") {
  // 1 + ½ (1e-5 (α − 1))², whose change is 5e-11: values are rounded to 1e-8, and one is too large.
  for (const double error : {0.0, 5e-8}) {
    const Line rounded = [error](double a) { return std::pair(1 + (a > 0 ? error : 0), 1e-10 * (a - 1)); };
    MoreThuente more_thuente;
    Armijo armijo;
    CHECK(search(more_thuente, rounded, 0.5).answer == LineAnswer::accepted);
    CHECK(more_thuente.test() == LineTest::approximate_wolfe);
    CHECK(search(armijo, rounded, 0.5).answer == LineAnswer::accepted);
    CHECK(armijo.test() == LineTest::approximate_armijo);
  }
}

TEST_CASE("backtracking takes the minimum of a parabola", "[line_search]") {
  // (α − 0.2)²: from 1, whose value is too large, to 0.2.
  const Line parabola = [](double a) { return std::pair((a - 0.2) * (a - 0.2), 2 * (a - 0.2)); };
  Armijo armijo;
  const Outcome found = search(armijo, parabola, 1);
  CHECK(found.answer == LineAnswer::accepted);
  CHECK(armijo.test() == LineTest::armijo);
  CHECK(found.evaluations == 2);
  CHECK(found.trial.step == Approx(0.2));
}

TEST_CASE("a nonmonotone search compares with the reference", "[line_search]") {
  Armijo armijo;
  armijo.start(1, -1, 1, 5);
  CHECK(armijo.see(4, 3) == LineAnswer::accepted);
  armijo.start(1, -1, 1);
  CHECK(armijo.see(4, 3) == LineAnswer::evaluate);
}

TEST_CASE("a step that nothing bounds is lengthened until the curvature holds", "[line_search]") {
  const Line slow = [](double a) { return std::pair(-std::log1p(a * 1e-6), -1e-6 / (1 + a * 1e-6)); };
  MoreThuente more_thuente({.curvature = 0.1});
  const Outcome found = search(more_thuente, slow, 1);
  CHECK(found.answer == LineAnswer::accepted);
  CHECK(found.trial.step > 9e6);
}

}  // namespace unisono::optim
