#pragma once

#include "unisono/data/dataset.hpp"
#include "unisono/search/method.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::jobs {

/// How long the trials of a search take, for those that are to start with the longest. Empty where the space varies
/// nothing that makes them longer, or the search may end before all trials have started: then the order of the numbers
/// is as good. \param text the config of all trials; both it and `data` must outlive the function
search::TrialWork work_of_trials(const search::SearchSettings& settings, const search::Space& space,
                                 const ConfigText& text, const models::ModelKinds& models,
                                 const data::DatasetInfo& data);

}  // namespace unisono::jobs
