#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/base/config_value.hpp"

namespace unisono {

/// The keys of a config with their values, whatever they mean: {"train.epochs", 10}. A list is one value, as is a table
/// that is written in braces.
using ConfigTree = std::map<std::string, ConfigValue>;

/// Reads the text with its overrides and removals. \throws ConfigError where it is no TOML
ConfigTree config_tree(const ConfigText& config);

/// A key that has other values in two configs; no value: that config does not have the key.
struct ConfigDifference {
  std::string key;  ///< "train.epochs"
  std::optional<ConfigValue> before, after;
};

/// Compares two configs key by key. \return what differs, in the order of the keys
std::vector<ConfigDifference> differences(const ConfigTree& before, const ConfigTree& after);

}  // namespace unisono
