#include <algorithm>
#include <utility>

#include "method_kind.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::search {

// halving.cpp: halving, hyperband; sobol.cpp, population.cpp and tpe.cpp: the methods of their names. Grid and random
// search are below.
SearchMethodKind grid_search(), random_search(), sobol_search(), halving_search(), hyperband_search(),
    population_search(), tpe_search();

const std::vector<SearchMethodKind>& search_method_kinds() {
  static const std::vector<SearchMethodKind> kinds = {grid_search(),    random_search(),    sobol_search(),
                                                      halving_search(), hyperband_search(), population_search(),
                                                      tpe_search()};
  return kinds;
}

std::unique_ptr<SearchMethod> make_search_method(const SearchSettings& settings, const Space& space, std::uint64_t seed,
                                                 std::int64_t epochs, TrialWork work) {
  SearchProblem problem{
      .settings = settings, .space = space, .baselines = {}, .seed = seed, .epochs = epochs, .work = std::move(work)};
  for (const ConfigValue& values : settings.baselines) problem.baselines.push_back(space.point_of(values));
  const auto& kinds = search_method_kinds();
  return std::ranges::find(kinds, settings.method, &SearchMethodKind::kind)->make(std::move(problem));
}

RandomStream search_stream(const SearchProblem& problem, Draw draw, std::uint64_t a) {
  return {problem.seed, Purpose::search, a, static_cast<std::uint32_t>(draw)};
}

double uniform(RandomStream& random) {
  const std::uint64_t high = random.bits();
  return static_cast<double>(((high << 32) | random.bits()) >> 11) * 0x1p-53;
}

Point random_point(const SearchProblem& problem, std::int64_t trial) {
  if (problem.is_baseline(trial)) return problem.baselines[static_cast<std::size_t>(trial)];
  RandomStream random = search_stream(problem, Draw::point, static_cast<std::uint64_t>(trial));
  Point point(problem.space.parameters().size());
  for (double& u : point) u = uniform(random);
  return point;
}

// Grid search: trial b + i, after b baselines, is point i of the grid of all combinations of values, the last key of
// the space fastest.

namespace {

std::unique_ptr<SearchMethod> make_grid(SearchProblem problem) {
  std::vector<Point> points = problem.baselines;
  const std::vector<Point> grid = problem.space.grid();
  points.insert(points.end(), grid.begin(), grid.end());
  const auto count = static_cast<std::int64_t>(points.size());
  return std::make_unique<FixedTrials>(problem, count, [points = std::move(points)](std::int64_t trial) {
    return points[static_cast<std::size_t>(trial)];
  });
}

}  // namespace

SearchMethodKind grid_search() { return {SearchKind::grid, describe_median_rule, make_grid}; }

// Random search: trial n is a point of Philox numbers at position n. Bergstra & Bengio, JMLR 2012.

namespace {

std::unique_ptr<SearchMethod> make_random(SearchProblem problem) {
  return std::make_unique<FixedTrials>(problem, problem.settings.trials,
                                       [problem](std::int64_t trial) { return random_point(problem, trial); });
}

void describe_random(ConfigVisitor& visitor, SearchSettings& settings) {
  describe_trials(visitor, settings);
  describe_median_rule(visitor, settings);
}

}  // namespace

SearchMethodKind random_search() { return {SearchKind::random, describe_random, make_random}; }

}  // namespace unisono::search
