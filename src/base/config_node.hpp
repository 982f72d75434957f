#pragma once

#include <string>

#include "toml.hpp"
#include "unisono/base/config_value.hpp"

namespace unisono::detail {

/// "a table", "the string 'x'", "an integer"
std::string type_name(const toml::node& node);

/// A node with all that is in it, and the place of each value. Tables are in the order of the file, overrides last.
/// \throws ConfigError for a date or time
ConfigValue config_value(const toml::node& node, const std::string& file);

}  // namespace unisono::detail
