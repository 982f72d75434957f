#pragma once

#include <string>

#include "toml.hpp"
#include "unisono/base/config.hpp"

namespace unisono::detail {

/// The config's text, with its overrides put in. \throws ConfigError
toml::table load_table(const ConfigText& config);

/// "configs/lenet.toml:14:3", "--set train.epochs=3", or the file alone for what stands nowhere.
std::string place(const toml::source_region& region, const std::string& file);

}  // namespace unisono::detail
