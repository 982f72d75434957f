// Grid search: trial b + i, after b baselines, is point i of the grid of all combinations of values, the last key of
// the space fastest.
#include "method_kind.hpp"

namespace unisono::search {
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

}  // namespace unisono::search
