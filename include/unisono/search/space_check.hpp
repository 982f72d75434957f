#pragma once

#include <functional>
#include <vector>

#include "unisono/search/space.hpp"

namespace unisono::search {

/// Finds before the first trial what all trials with a value would be refused for: an unknown key, a value of another
/// type or out of range. A value that suits some of the others is not refused: there may be trials with it.
/// \param parse the config with these values; throws ConfigError where they are no config
/// \throws ConfigError naming the key and its value
void require_values(const Space& space, const std::function<void(const std::vector<Assignment>&)>& parse);

/// Refuses keys that a trial cannot have for itself. \param in_steps whether the method decides how long each is
/// trained \throws ConfigError naming the key, and what to do instead
void require_free_keys(const Space& space, bool in_steps);

}  // namespace unisono::search
