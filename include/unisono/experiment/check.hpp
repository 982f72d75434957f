#pragma once

#include <string>

#include "unisono/experiment/config.hpp"

namespace unisono::experiment {

/// Puts together what training would, as far as that does not depend on the ranks and takes no memory: the set's
/// figures, the model, the strategy, the update rule. Reads no features. Not collective.
/// \return what was found, or that the data are not there and were not looked at
/// \throws ConfigError, DataError as training would
std::string check(const Config& config);

}  // namespace unisono::experiment
