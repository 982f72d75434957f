#pragma once

#include <string>
#include <vector>

namespace unisono::data {

/// The files that are named, and all files of the folders that are named and of folders in them, in alphabetical order.
/// \throws DataError where one does not exist, or a folder has no file
std::vector<std::string> list_files(const std::vector<std::string>& paths);

}  // namespace unisono::data
