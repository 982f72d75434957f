#include <algorithm>
#include <utility>

#include "method_kind.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::search {

// Each is defined in the file of its name.
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

}  // namespace unisono::search
