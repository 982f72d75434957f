#pragma once

#include <string>
#include <vector>

#include "search/space.hpp"
#include "trials/plan.hpp"

namespace unisono::experiment {

/// What a trial changes of the config: its point's values, and its seed, which is a function of the experiment's seed
/// and of its numbers.
std::vector<std::string> trial_overrides(const Space& space, const TrialPlan& plan, std::int64_t seed,
                                         const Training& training);

/// "optimizer.learning_rate = 0.1, train.batch_size = 32"
std::string trial_text(const Space& space, const TrialPlan& plan, std::int64_t trial);

}  // namespace unisono::experiment
