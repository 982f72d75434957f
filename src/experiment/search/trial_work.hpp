#pragma once

#include "search/method.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/experiment/config.hpp"

namespace unisono::experiment {

/// How long the trials of a search take, for those that are to start with the longest. Empty where the space varies
/// nothing that makes them longer, or the search may end before all trials have started: then the order of the numbers
/// is as good. \param text the config of all trials; both it and `data` must outlive the function
TrialWork work_of_trials(const SearchSettings& settings, const Space& space, const ConfigText& text,
                         const models::ModelKinds& models, const data::DatasetInfo& data);

}  // namespace unisono::experiment
