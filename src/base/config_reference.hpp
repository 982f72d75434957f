#pragma once

#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::detail {

/// What the reference says of one key.
struct ReferenceKey {
  std::string name, type, meaning, unit, range;
  std::string value;                                         ///< the default, as TOML; empty where the key is required
  std::vector<std::pair<std::string, std::string>> choices;  ///< name and meaning
  std::vector<std::string> kinds;                            ///< of the table's variant; empty: always there
};

struct ReferenceTable {
  std::string title, meaning;  ///< "[train]"
  std::vector<std::string> kinds;
  std::vector<ReferenceKey> keys;
  std::vector<ReferenceTable> tables;
};

ReferenceTable collect_reference(const Describe& describe);

}  // namespace unisono::detail
