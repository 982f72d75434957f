#pragma once

#include <string>
#include <vector>

#include "unisono/search/space.hpp"

// How distributions are written: what Space reads, without what it does with them.

namespace unisono::search {

/// Whether a value is written as a distribution: `{ log = [1e-4, 1] }`.
bool is_distribution(const ConfigValue& value);

/// A path as --set takes it: "model.layers[3].units" as "model.layers.3.units".
/// \param place of the key, for messages
std::string normal_key(const std::string& key, const std::string& place);

/// The parameters of `[search.space]`. \throws ConfigError
std::vector<Parameter> parse_space(const ConfigValue& table);

}  // namespace unisono::search
