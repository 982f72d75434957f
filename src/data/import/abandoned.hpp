#pragma once

#include <string>

namespace unisono::data {

/// What an importer writes to until it is done: OUTPUT.unfinished-PROCESS@HOST.
std::string unfinished_path(const std::string& output);

/// Removes what this user's importers on this host left in the output's folder when they were killed. Whatever another
/// user, another host or a living process may be writing stays.
void remove_abandoned(const std::string& output);

}  // namespace unisono::data
