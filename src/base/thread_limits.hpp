#pragma once

#include <string>

namespace unisono {

/// The known limits on the number of threads of this process, for a message: "this user may have 100 processes and
/// threads (ulimit -u)". Empty where no limit is known.
std::string thread_limits();

/// The smallest `pids.max` of a control group and its parents, for a message: "the control group allows 64 processes
/// and threads (/sys/fs/cgroup/job/pids.max)". Empty where there is no limit.
/// \param memberships the lines of /proc/self/cgroup
/// \param root        /sys/fs/cgroup
std::string cgroup_limit(const std::string& memberships, const std::string& root);

}  // namespace unisono
