#include "importance.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "unisono/base/random.hpp"

namespace unisono::report {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<double> uniform(std::size_t count, std::uint32_t column) {
  RandomStream random(1, Purpose::test, 0, column);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(random.uniform());
  return values;
}

TEST_CASE("the setting that decides is the most important, one that does nothing is not", "[importance]") {
  const std::vector<std::vector<double>> settings = {uniform(60, 0), uniform(60, 1), uniform(60, 2)};
  std::vector<double> values;
  for (std::size_t i = 0; i < 60; ++i) values.push_back(std::exp(20 * settings[1][i]) + 0.1 * settings[2][i]);
  const Importance found = importance_of(settings, values);
  CHECK(found.settings[1] > 0.8);
  CHECK(std::abs(found.settings[0]) < 0.1);
  CHECK(std::abs(found.settings[2]) < 0.1);
  CHECK(found.explained > 0.7);
  CHECK(found.explained <= 1);
  CHECK(importance_of(settings, values).settings == found.settings);  // always the same
}

TEST_CASE("importance counts what happens through interactions", "[importance]") {
  // An exclusive or: neither setting says anything alone.
  const std::vector<std::vector<double>> settings = {uniform(200, 0), uniform(200, 1), uniform(200, 2)};
  std::vector<double> values;
  for (std::size_t i = 0; i < 200; ++i) values.push_back((settings[0][i] < 0.5) != (settings[1][i] < 0.5) ? 1 : 0);
  const Importance found = importance_of(settings, values);
  CHECK(found.settings[0] > 0.2);
  CHECK(found.settings[1] > 0.2);
  CHECK(std::abs(found.settings[2]) < 0.15);
}

TEST_CASE("values without any pattern are not explained", "[importance]") {
  const Importance found = importance_of({uniform(100, 0), uniform(100, 1)}, uniform(100, 2));
  CHECK(found.explained < 0.2);
}

TEST_CASE("a setting that some trials do not have is a difference, too", "[importance]") {
  std::vector<double> rate = uniform(40, 0), values(40);
  for (std::size_t i = 0; i < 40; ++i) {
    values[i] = i % 2 == 0 ? 1.0 : 2.0;
    if (i % 2 == 0) rate[i] = kNone;
  }
  const Importance found = importance_of({rate, uniform(40, 1)}, values);
  CHECK(found.settings[0] > 0.8);
  CHECK(found.explained > 0.7);
}

TEST_CASE("equal values and many trials", "[importance]") {
  const Importance none = importance_of({uniform(20, 0)}, std::vector<double>(20, 3.0));
  CHECK(none.settings == std::vector<double>{0});
  CHECK(none.explained == 0);
  const std::vector<double> many = uniform(5000, 0);
  CHECK(importance_of({many}, many).explained > 0.99);
}

}  // namespace
}  // namespace unisono::report
