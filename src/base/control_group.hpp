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

/// The known limits on the number of threads of this process, for a message: "this user may have 100 processes and
/// threads (ulimit -u)". Empty where no limit is known.
std::string thread_limits();

/// The smallest `pids.max` of a control group and its parents, for a message: "the control group allows 64 processes
/// and threads (/sys/fs/cgroup/job/pids.max)". Empty where there is no limit.
/// \param memberships the lines of /proc/self/cgroup
/// \param root        /sys/fs/cgroup
std::string cgroup_limit(const std::string& memberships, const std::string& root);

}  // namespace unisono
