#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace unisono {

/// Bytes that processes of this node can still allocate: the kernel's MemAvailable, or what the limit of this process's
/// control group leaves, if that is less. Nothing where the kernel does not say.
/// \param root prefix of /proc and /sys, for tests
std::optional<std::int64_t> available_memory_bytes(const std::string& root = "");

/// The bytes behind a word such as "VmRSS:" at the start of a line of /proc/self/status; 0 if there is none.
std::int64_t process_status_bytes(const std::string& word, const std::string& root = "");

/// How much CPU time a control group may use.
struct CpuQuota {
  double cores = 0;   ///< 1.5: 150 ms in every 100 ms, by all processes of the group together
  std::string group;  ///< the group's folder: "/sys/fs/cgroup/jobs/one"
};

/// The quotas of this process's control group and of its ancestors, the innermost first; empty where there are none.
/// Version 2 of control groups writes them to cpu.max, version 1 to cpu.cfs_quota_us and cpu.cfs_period_us.
/// \param root prefix of /proc and /sys, for tests
std::vector<CpuQuota> cpu_quotas(const std::string& root = "");

/// The threads for a quota, or a part of one: rounded to the nearest, at least 1. Two threads on 1.5 cores use all of
/// them, one thread does not; but a process that uses its quota up stands still until the next period, so that a second
/// thread gains nothing on 1.2 cores.
int threads_of_quota(double cores);

/// How many CPUs this process may use: those that it may run on, and no more than its smallest quota; at least 1.
int usable_cpus();

/// The folders of a process's control group and of its ancestors, the innermost first; empty where the process is in no
/// group of the controller. Inside a container, the outermost folder is the container's own group.
/// \param memberships the lines of /proc/self/cgroup
/// \param controller  of cgroup version 1, e.g. "memory", whose groups are in root/memory; "": version 2, whose groups
///                    are in root
/// \param root        /sys/fs/cgroup
std::vector<std::filesystem::path> control_groups(const std::string& memberships, const std::string& controller,
                                                  const std::filesystem::path& root);

/// The whole text of a file; "" where it cannot be read.
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
