#pragma once

#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::detail {

/// The reference's entry of one key.
struct ReferenceKey {
  std::string name, type, meaning, unit, range;
  std::string value;                                         ///< the default, as TOML; empty where the key is required
  std::vector<std::pair<std::string, std::string>> choices;  ///< name and meaning
  std::vector<std::string> kinds;  ///< of the table's variant, those that have the key; empty: all
};

/// The reference's entry of one table, with its keys and inner tables.
struct ReferenceTable {
  std::string title, meaning;  ///< "[train]"
  std::vector<std::string> kinds;
  std::vector<ReferenceKey> keys;
  std::vector<ReferenceTable> tables;
};

/// The reference of a whole config, as a tree.
ReferenceTable collect_reference(const Describe& describe);

}  // namespace unisono::detail
