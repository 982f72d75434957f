#pragma once

#include <string>

#include "config/toml.hpp"
#include "unisono/base/config.hpp"

namespace unisono::detail {

struct LoadedTable {
  toml::table table;  ///< the config's text without what was removed, with its overrides put in
  toml::table file;   ///< the same without overrides; its nodes have no source location
};

/// \throws ConfigError
LoadedTable load_table(const ConfigText& config);

/// Whether a value, or something in it, was given by --set.
bool is_override(const toml::node& node);

/// "configs/lenet.toml:14:3", "--set train.epochs=3", or the file alone for a node without a source location.
std::string place(const toml::source_region& region, const std::string& file);

/// A node with all that is in it, and the place of each value. Tables are in the order of the file, overrides last.
/// \throws ConfigError for a date or time
ConfigValue config_value(const toml::node& node, const std::string& file);

}  // namespace unisono::detail
