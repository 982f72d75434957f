// Random search: trial n is a point of Philox numbers at position n. Bergstra & Bengio, JMLR 2012.
#include "method_kind.hpp"

namespace unisono::search {
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
