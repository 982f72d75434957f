#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "parzen.hpp"
#include "search_helpers.hpp"

namespace unisono::search {
namespace {

/// All points of a search, by trial.
std::vector<Point> points_of(SearchMethod& method, std::size_t workers, std::uint64_t order,
                             const LossOf& loss = quadratic) {
  simulate(method, workers, loss, order_of(order));
  CHECK(method.is_complete());
  std::vector<Point> points;
  for (std::int64_t trial = 0; trial < method.trials(); ++trial) points.push_back(method.point(trial));
  return points;
}

TEST_CASE("trials of grid, random, Sobol and TPE depend on their numbers alone, and more of them go on", "[search]") {
  const std::string kind = GENERATE("random", "sobol", "tpe");
  const auto keys = [&](int trials) {
    return "method = \"" + kind + "\"\nbaselines = [{ x = 0.5, y = 0.25 }]\ntrials = " + std::to_string(trials);
  };
  const auto serial = points_of(*method_of(keys(40)), 1, 0);
  CHECK(serial[0] == Point{0.5, 0.25});
  CHECK(serial[1] != serial[2]);
  for (const std::size_t workers : {2U, 5U, 20U}) {
    for (const std::uint64_t order : {1U, 2U}) CHECK(points_of(*method_of(keys(40)), workers, order) == serial);
  }
  const auto more = points_of(*method_of(keys(60)), 3, 3);
  CHECK(std::equal(serial.begin(), serial.end(), more.begin()));
  CHECK(points_of(*method_of(keys(40), 2), 1, 0)[1] != serial[1]);
  CHECK_FALSE(method_of(keys(40))->depends_on_timing());
}

TEST_CASE("a grid is run point by point, after the baselines", "[search]") {
  const SearchSettings settings = search_settings(
      "[search]\nmethod = \"grid\"\nbaselines = [{ x = 2 }]\n[search.space]\nx = { integers = [1, 3] }");
  const Space space(settings.space);
  const auto method = make_search_method(settings, space, 1, 1);
  std::vector<std::string> texts;
  for (const Point& point : points_of(*method, 2, 1, [](const auto&, const auto&) { return 0.0; }))
    texts.push_back(space.at(point)[0].override_text());
  CHECK(texts == std::vector<std::string>{"x=2", "x=1", "x=2", "x=3"});
}

TEST_CASE("the longest trials start first, after the baselines, and equally long ones in the order of their numbers",
          "[search]") {
  const SearchSettings settings = search_settings(
      "[search]\nmethod = \"grid\"\nbaselines = [{ x = 2, y = 1 }]\n[search.space]\nx = [1, 2, 3]\ny = [1, 2]");
  const Space space(settings.space);
  const auto make = [&] {
    return make_search_method(settings, space, 1, 1, [](const Point& point) { return point[0]; });
  };
  const auto method = make();
  const auto events = simulate(*method, 3, quadratic, order_of(1));
  std::vector<std::int64_t> started;
  for (const SearchEvent& event : events) {
    if (event.is_start) started.push_back(event.step.trial);
  }
  CHECK(started == std::vector<std::int64_t>{0, 5, 6, 3, 4, 1, 2});
  CHECK(method->is_complete());
  CHECK(wrong_restarts(make, events) == 0);
}

TEST_CASE("each method goes on after a restart as if it had not stopped", "[search]") {
  const std::string keys =
      GENERATE("method = \"random\"\ntrials = 20", "method = \"tpe\"\ntrials = 40\nlookahead = 4",
               "method = \"halving\"\ntrials = 40", "method = \"hyperband\"",
               "method = \"population\"\ntrials = 10\nexploit_every_epochs = 5\nexploited_fraction = 0.3");
  for (const std::uint64_t order : {1U, 2U, 3U}) {
    const auto method = method_of(keys);
    const auto events = simulate(*method, 4, quadratic, order_of(order));
    CHECK(wrong_restarts([&] { return method_of(keys); }, events) == 0);
  }
}

TEST_CASE("a method ends where every trial fails", "[search]") {
  const std::string keys =
      GENERATE("method = \"random\"\ntrials = 20", "method = \"sobol\"\ntrials = 20", "method = \"tpe\"\ntrials = 30",
               "method = \"halving\"\ntrials = 40", "method = \"hyperband\"",
               "method = \"population\"\ntrials = 10\nexploit_every_epochs = 5");
  const auto method = method_of(keys);
  const auto fails = [](const SearchStep&, const Point&) { return std::numeric_limits<double>::quiet_NaN(); };
  const auto events = simulate(*method, 4, fails, order_of(1));
  CHECK(method->is_complete());
  CHECK(events.size() == 2 * static_cast<std::size_t>(method->trials()));
}

TEST_CASE("a Sobol search of too many keys is refused", "[search]") {
  std::string space;
  for (int i = 0; i < 65; ++i) space += "a" + std::to_string(i) + " = { linear = [0, 1] }\n";
  const SearchSettings settings = search_settings("[search]\nmethod = \"sobol\"\ntrials = 4\n[search.space]\n" + space);
  CHECK(complaint_of([&] { make_search_method(settings, Space(settings.space), 1, 1); }) ==
        "search.method = \"sobol\" draws at most 64 values, but [search.space] has 65: vary fewer keys, or use method "
        "= \"random\"");
}

// --- TPE ---

TEST_CASE("a Parzen estimator is a density, and draws from it", "[search]") {
  const ParzenEstimator estimator({0.0, 0.3, 0.32, 0.9});
  double mass = 0;
  constexpr int kParts = 100'000, kDraws = 20'000;
  for (int i = 0; i < kParts; ++i) mass += estimator.density((i + 0.5) / kParts) / kParts;
  CHECK(std::abs(mass - 1) < 1e-6);

  double below = 0;  // the share below 0.4, by the density and by draws
  for (int i = 0; i < kParts * 4 / 10; ++i) below += estimator.density((i + 0.5) / kParts) / kParts;
  RandomStream random(1, Purpose::test);
  int drawn = 0;
  for (int i = 0; i < kDraws; ++i) drawn += estimator.draw(random) < 0.4 ? 1 : 0;
  // 5 standard deviations of a share of 20,000: 5 · √(¼ / 20,000) = 0.018
  CHECK(std::abs(static_cast<double>(drawn) / kDraws - below) < 0.018);
  CHECK(ParzenEstimator({}).density(0.7) == 1);
}

TEST_CASE("TPE waits for the results of trials below n − lookahead, and no others", "[search]") {
  const auto method = method_of("method = \"tpe\"\ntrials = 10\nlookahead = 3");
  std::vector<SearchStep> steps;
  while (const auto step = method->next()) {
    method->started(*step);
    steps.push_back(*step);
  }
  CHECK(steps.size() == 4);  // trial 4 needs trial 0
  method->ended(steps[1], 1);
  method->ended(steps[3], 1);
  CHECK_FALSE(method->next());
  method->ended(steps[0], 1);
  CHECK(method->next()->trial == 4);
  method->started(*method->next());
  CHECK(method->next()->trial == 5);  // which needs trial 1
  method->started(*method->next());
  CHECK_FALSE(method->next());  // 6 needs trial 2
}

/// Of so many seeds, how many searches come within 0.05 of (0.3, 0.7) in so many trials.
int searches_that_find(const std::string& keys, int seeds) {
  int found = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    const auto points = points_of(*method_of(keys, static_cast<std::uint64_t>(seed)), 1, 0);
    found += std::ranges::any_of(points, [](const Point& p) { return quadratic({}, p) < 0.05 * 0.05; }) ? 1 : 0;
  }
  return found;
}

TEST_CASE("TPE finds the optimum of a quadratic in clearly fewer trials than random search", "[search]") {
  // A random point lies within 0.05 of the optimum with probability q = π · 0.05² = 0.00785. So 60 random trials find
  // it with probability 1 − (1 − q)^60 = 0.377: 37.7 ± 4.8 of 100 searches. Were TPE no better, more than 37.7 + 8
  // · 4.8 = 76 would have a probability below 1e-14. Random search needs ln(1 − 0.76) / ln(1 − q) = 181 trials for as
  // many.
  const int random = searches_that_find("method = \"random\"\ntrials = 60", 100);
  CHECK(std::abs(random - 37.7) < 5 * 4.8);
  CHECK(searches_that_find("method = \"tpe\"\ntrials = 60\nlookahead = 0", 100) > 76);
  CHECK(searches_that_find("method = \"tpe\"\ntrials = 60\nlookahead = 4", 100) > 76);
}

TEST_CASE("TPE learns which choice is better, and searches within it", "[search]") {
  // Only kind "b" can be good, and only near rate = 0.001.
  const SearchSettings settings = search_settings(R"([search]
    method = "tpe"
    trials = 80
    lookahead = 2
    [search.space]
    optimizer = [{ kind = "a", momentum = { linear = [0, 1] } }, { kind = "b", rate = { log = [1e-5, 1] } },
                 { kind = "c" }])");
  const Space space(settings.space);
  const auto loss = [](const SearchStep&, const Point& p) {
    const auto option = static_cast<int>(p[0] * 3);
    return option == 1 ? std::abs(p[2] - 0.4) : 1 + p[1];
  };
  int good = 0, near = 0, all = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto method = make_search_method(settings, space, seed, 1);
    const auto points = points_of(*method, 2, seed, loss);
    for (std::size_t i = 40; i < points.size(); ++i) {
      ++all;
      good += space.is_active(2, points[i]) ? 1 : 0;
      near += space.is_active(2, points[i]) && std::abs(points[i][2] - 0.4) < 0.1 ? 1 : 0;
    }
  }
  // At random a third and 0.2 / 3 of them. TPE takes the best of 24 draws: far more than half.
  CHECK(good > all * 2 / 3);
  CHECK(near > all / 2);
}

}  // namespace
}  // namespace unisono::search
