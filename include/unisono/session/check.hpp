#pragma once

#include <string>

#include "unisono/settings/config.hpp"

namespace unisono::session {

/// Checks a config by making what training would make, as far as it depends neither on the ranks nor on much memory:
/// the set's metadata, the model, the strategy, the update rule. Reads no features. Not collective.
/// \param ranks that it will be trained on \param with_folds whether folds of its training examples validate it
/// \return a text about what was checked, or that the data file is missing and was not checked
/// \throws ConfigError, DataError as training does
std::string check(const settings::Config& config, int ranks = 1, bool with_folds = false);

}  // namespace unisono::session
