#include "validation/least_squares.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>

#include "unisono/base/errors.hpp"
#include "validation/splitters.hpp"

using namespace unisono;
using namespace unisono::jobs;
using Rows = std::vector<std::int64_t>;

// The references are scikit-learn 1.9.1's Ridge with alpha = n · l2, on standardised features where that is said.

namespace {

struct Examples {
  std::vector<double> x, y;
};

Examples small() {
  Examples examples;
  for (int i = 0; i < 12; ++i) {
    for (int j = 0; j < 3; ++j) examples.x.push_back((i * i + 3 * j * i + j) % 17);
    examples.y.push_back((i * 5) % 7 + 0.5 * i);
  }
  return examples;
}

Rows range(std::int64_t first, std::int64_t last) {
  Rows rows(static_cast<std::size_t>(last - first));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

void check_fit(const LinearFit& fit, const std::vector<double>& weights, double bias) {
  for (std::size_t j = 0; j < weights.size(); ++j) CHECK(fit.weights[j] == Approx(weights[j]).epsilon(1e-11));
  CHECK(fit.bias == Approx(bias).epsilon(1e-11));
}

double mean_squared_error(const std::vector<double>& predictions, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += (predictions[i] - y[i]) * (predictions[i] - y[i]);
  return sum / static_cast<double>(y.size());
}

/// winequality-red.csv: 1,599 wines with 11 features. \return nothing where the file is not there
std::optional<Examples> wine() {
  const char* folder = std::getenv("UNISONO_DATA");
  std::ifstream file(std::string(folder == nullptr ? "" : folder) + "/wine-quality/winequality-red.csv");
  Examples examples;
  std::string line;
  if (!std::getline(file, line)) return {};
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::vector<double> values;
    for (std::string field; std::getline(fields, field, ';');) values.push_back(std::stod(field));
    examples.y.push_back(values.back());
    examples.x.insert(examples.x.end(), values.begin(), values.end() - 1);
  }
  return examples;
}

}  // namespace

TEST_CASE("ridge regression is scikit-learn's", "[least_squares]") {
  const auto [x, y] = small();
  const LeastSquares plain(x, y, {.l2 = 0.3}), standardised(x, y, {.l2 = 0.3, .standardised = true}),
      no_bias(x, y, {.l2 = 0.3, .bias = false});
  check_fit(plain.fit(range(0, 12)), {0.1164350239162492, 0.08208908929225793, -0.07056253861460225},
            4.767157028371608);
  check_fit(plain.fit(range(1, 12)), {0.06682294814342042, -0.085479748661974, -0.21699779004316927},
            7.673390018437775);
  const Rows some{0, 1, 2, 5, 6, 7, 8, 11};
  check_fit(plain.fit(some), {0.018836154016164366, 0.01049637249364237, 0.19563040994689945}, 4.345626053681308);
  check_fit(standardised.fit(range(0, 12)), {0.0830087590908584, 0.08389578277435895, -0.038565818532363114},
            4.826953251945862);
  check_fit(standardised.fit(some), {0.03090970693837973, 0.00041837470768339567, 0.14467440319781755},
            4.6173200970611274);
  check_fit(no_bias.fit(some), {-0.005250507376648442, 0.40773035774698957, 0.5419101975149275}, 0);
}

TEST_CASE("predictions of left-out examples by the hat matrix are those of as many fits", "[least_squares]") {
  const auto [x, y] = small();
  for (const Ridge& ridge : {Ridge{.l2 = 0.3}, Ridge{.l2 = 0}, Ridge{.l2 = 0.1, .bias = false},
                             Ridge{.l2 = 0.1, .bias_l2 = 0.2}, Ridge{.l2 = 0.3, .standardised = true}}) {
    CAPTURE(ridge.l2, ridge.bias, ridge.standardised);
    const LeastSquares problem(x, y, ridge);
    for (const Folds& folds :
         {leave_one_out(12, 100), leave_p_out(12, 2, 100), leave_p_out(12, 3, 1000), k_fold(12, 5, nullptr)}) {
      const auto fitted = problem.predict_by_fits(folds), short_cut = problem.predict_by_shortcut(folds);
      REQUIRE(fitted.size() == short_cut.size());
      // Some hundred roundings of numbers below 20, and condition numbers below 10⁴.
      for (std::size_t i = 0; i < fitted.size(); ++i) CHECK(short_cut[i] == Approx(fitted[i]).margin(1e-10));
    }
    const Folds one = leave_one_out(12, 100);
    const LinearFit fit = problem.fit(one.fold(4).train);
    CHECK(fit.predict(std::span(x).subspan(12, 3)) == Approx(problem.predict_by_fits(one)[4]).epsilon(1e-12));
  }
}

TEST_CASE("features that depend on each other need a penalty", "[least_squares]") {
  auto [x, y] = small();
  for (std::size_t i = 0; i < y.size(); ++i) x[3 * i + 2] = x[3 * i] - 2 * x[3 * i + 1] + 5;
  const Folds folds = leave_one_out(12, 100);
  const LeastSquares singular(x, y, {.l2 = 0}), regular(x, y, {.l2 = 1e-3});
  CHECK_THROWS_AS(singular.predict_by_fits(folds), DataError);
  CHECK_THROWS_AS(singular.predict_by_shortcut(folds), DataError);
  CHECK_NOTHROW(regular.predict_by_fits(folds));
}

TEST_CASE("leave-one-out on wines is scikit-learn's", "[least_squares]") {
  const auto wines = wine();
  if (!wines) return;
  const auto& [x, y] = *wines;
  REQUIRE(y.size() == 1599);
  const Folds folds = leave_one_out(1599, 10000);
  const std::vector<std::pair<Ridge, double>> references = {
      {{.l2 = 1.0 / 1598}, 0.42445734215324243},
      {{.l2 = 0.001}, 0.424797831181323},
      {{.l2 = 1.0 / 1598, .standardised = true}, 0.4247591540250143},
      {{.l2 = 0.05, .standardised = true}, 0.42435987772985523}};
  for (const auto& [ridge, error] : references) {
    const LeastSquares problem(x, y, ridge);
    const auto fitted = problem.predict_by_fits(folds), short_cut = problem.predict_by_shortcut(folds);
    CHECK(mean_squared_error(fitted, y) == Approx(error).epsilon(1e-9));
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(short_cut[i] == Approx(fitted[i]).epsilon(1e-9));
  }
}
