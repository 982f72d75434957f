#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace unisono {

/// The folders of a process's control group and of its ancestors, the innermost first; empty where the process is in no
/// group of that controller. Inside a container, the outermost folder is the container's own group.
/// \param memberships the lines of /proc/self/cgroup
/// \param controller  of cgroup version 1, e.g. "memory", whose groups are in root/memory; "": version 2, whose groups
///                    are in root
/// \param root        /sys/fs/cgroup
std::vector<std::filesystem::path> control_groups(const std::string& memberships, const std::string& controller,
                                                  const std::filesystem::path& root);

/// All of a file; "" where it cannot be read.
std::string text_of_file(const std::filesystem::path& path);

}  // namespace unisono
