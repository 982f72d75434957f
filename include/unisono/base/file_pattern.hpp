#pragma once

#include <string>
#include <vector>

namespace unisono {

/// Whether a path stands for several files: it has a wildcard of the shell (*, ? or [), and no file has this very name.
bool is_file_pattern(const std::string& path);

/// The files that a path stands for, in the order of their names, byte by byte; the path itself where it is no pattern.
/// Empty: no file fits the pattern.
std::vector<std::string> files_of(const std::string& path);

/// Whether there is a file for a path, or for the pattern that it is.
bool has_files(const std::string& path);

}  // namespace unisono
