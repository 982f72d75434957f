#pragma once

#include <map>
#include <string>

namespace unisono::records {

/// {"train.epochs", "10"} and so on, of an effective config: one key a line below its section's header; values that go
/// over several lines belong to the key above them.
std::map<std::string, std::string> config_entries(const std::string& effective);

}  // namespace unisono::records
