// Random search: trial n is a point of Philox numbers at position n. Bergstra & Bengio, JMLR 2012.
#include "search/fixed_trials.hpp"

namespace unisono::experiment {
namespace {

std::unique_ptr<SearchMethod> make(SearchProblem problem) {
  return std::make_unique<FixedTrials>(problem, problem.settings.trials,
                                       [problem](std::int64_t trial) { return random_point(problem, trial); });
}

void describe(ConfigVisitor& visitor, SearchSettings& settings) {
  describe_trials(visitor, settings);
  describe_median_rule(visitor, settings);
}

}  // namespace

SearchMethodKind random_search() { return {SearchKind::random, describe, make}; }

}  // namespace unisono::experiment
