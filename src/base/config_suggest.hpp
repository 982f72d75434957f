#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::detail {

// Keys anywhere in a config, by the last part of their path: "optimizer.learning_rate" for "learning_rate";
// "model.layers.N.units" for a key of an array's elements. None where there are too many to be of help.

std::vector<std::string> keys_called(std::string_view name, const Describe& describe);

/// Those whose last part is nearest to a mistyped one; none where none is near.
std::vector<std::string> keys_like(std::string_view name, const Describe& describe);

}  // namespace unisono::detail
