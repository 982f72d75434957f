#pragma once

#include <string>
#include <vector>

#include "unisono/search/space.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/trials/trial_plan.hpp"

namespace unisono::trials {

/// What a trial changes of the config: its point's values, and its seed, which is a function of the experiment's seed
/// and of its numbers.
std::vector<std::string> trial_overrides(const search::Space& space, const TrialPlan& plan, std::int64_t seed,
                                         const records::TrialRun& training);

/// The config of all trials with the values of a point. \throws ConfigError where they are impossible
settings::Config config_at(const ConfigText& text, const std::vector<search::Assignment>& values,
                           const models::ModelKinds& models);

/// Where a search's training leaves its run: "FOLDER/trials/0007", "FOLDER/trials/0007/repeat-1/fold-3", "FOLDER/best".
std::string trial_folder(const std::string& search, const PlanShape& shape, const records::TrialRun& training);

/// "optimizer.learning_rate = 0.1, train.batch_size = 32"
std::string trial_text(const search::Space& space, const TrialPlan& plan, std::int64_t trial);

}  // namespace unisono::trials
