#pragma once

#include <string>
#include <utility>
#include <vector>

#include "unisono/settings/config.hpp"

namespace unisono::report {

/// The keys of an effective config that make a difference: without such a key, the config would be another one. In the
/// order of their names, with their values as TOML; all keys where this version cannot read the config.
std::vector<std::pair<std::string, std::string>> chosen_keys(const std::string& effective,
                                                             const models::ModelKinds& models);

}  // namespace unisono::report
