#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::detail {

// Suggestions for an unknown key: known keys of the whole config, found by the last part of their path. For
// "learning_rate" that is "optimizer.learning_rate"; a key of an array's elements reads "model.layers.N.units". All
// return nothing where more than four keys fit: too many to be of help.

/// The keys whose last part is `name`.
std::vector<std::string> keys_called(std::string_view name, const Describe& describe);

/// The keys whose last part is nearest to a mistyped one; none where none is near.
std::vector<std::string> keys_like(std::string_view name, const Describe& describe);

}  // namespace unisono::detail
