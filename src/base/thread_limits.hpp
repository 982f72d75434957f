#pragma once

#include <string>

namespace unisono {

/// What bounds the number of threads of this process, as far as the system says it, for a message: "this user may have
/// 100 processes and threads (ulimit -u)". Empty: nothing that is known.
std::string thread_limits();

/// The least `pids.max` of a control group and those above it: "the control group allows 64 processes and threads
/// (/sys/fs/cgroup/job/pids.max)". Empty where none limits.
/// \param memberships the lines of /proc/self/cgroup
/// \param root        /sys/fs/cgroup
std::string cgroup_limit(const std::string& memberships, const std::string& root);

}  // namespace unisono
